// What the engine answers, whoever else asks.
#include "engine/engine_rig.h"

#include <cmath>
#include <set>

namespace rose {
namespace {

using namespace testing;

INSTANTIATE_TEST_SUITE_P(, EngineOn, ::testing::Values(&host_device(), &late_device()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(EngineOn, one_request_gets_the_models_own_tokens) {
  FakeHost host(*GetParam());
  const auto engine = start(host, small());
  Listener listener;
  const std::vector<int> prompt = prompt_of(300, 1);
  ASSERT_TRUE(engine->submit(greedy(prompt, 200), listener.sink()));
  listener.wait();
  EXPECT_EQ(listener.answers[0].tokens, fake_answer(prompt, 200));
  EXPECT_EQ(listener.answers[0].finish, Finish::length);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_EQ(stats.generated_tokens, 200);
  EXPECT_EQ(stats.prompt_tokens, 300);
  EXPECT_EQ(stats.pages_free[0] + stats.pages_cached[0], stats.pages[0]);
  EXPECT_EQ(stats.pages_free[1] + stats.pages_cached[1], stats.pages[1]);
}

TEST_P(EngineOn, the_context_ends_an_answer) {
  FakeHost host(*GetParam());
  const auto engine = start(host, small());
  EXPECT_EQ(engine->max_context(), 1024);
  Listener last, asks_more, asks_nothing;
  ASSERT_TRUE(engine->submit(greedy(prompt_of(1023, 1), 50), last.sink()));
  ASSERT_TRUE(engine->submit(greedy(prompt_of(1000, 2), 50), asks_more.sink()));
  ASSERT_TRUE(engine->submit(greedy(prompt_of(990, 3), 0), asks_nothing.sink()));
  for (Listener* listener : {&last, &asks_more, &asks_nothing}) listener->wait();
  EXPECT_EQ(last.answers[0].tokens, fake_answer(prompt_of(1023, 1), 1));
  EXPECT_EQ(asks_more.answers[0].tokens, fake_answer(prompt_of(1000, 2), 24));
  EXPECT_EQ(asks_nothing.answers[0].tokens, fake_answer(prompt_of(990, 3), 34));
  EXPECT_EQ(asks_more.answers[0].finish, Finish::length);
}

TEST_P(EngineOn, refuses_what_can_never_be_done) {
  FakeHost host(*GetParam());
  const auto engine = start(host, small());
  struct Case {
    const char* says;
    std::function<void(Request&)> change;
  };
  const Case cases[] = {
      {"the prompt is empty", [](Request& r) { r.prompt.clear(); }},
      {"the prompt has 1024 tokens; the context is 1024",
       [](Request& r) { r.prompt = prompt_of(1024, 1); }},
      {"token 61; the vocabulary ends at 60", [](Request& r) { r.prompt = {61}; }},
      {"token -1", [](Request& r) { r.prompt = {-1}; }},
      {"stop tokens has token 99", [](Request& r) { r.stop_tokens = {99}; }},
      {"0 choices", [](Request& r) { r.choices = 0; }},
      {"129 choices", [](Request& r) { r.choices = 129; }},
      {"max_tokens is -1", [](Request& r) { r.max_tokens = -1; }},
      {"min_tokens is -1", [](Request& r) { r.min_tokens = -1; }},
      {"min_tokens is 9, more than max_tokens, which is 8",
       [](Request& r) { r.max_tokens = 8, r.min_tokens = 9; }},
      {"temperature is -1", [](Request& r) { r.sampling.temperature = -1; }},
      {"temperature is nan", [](Request& r) { r.sampling.temperature = NAN; }},
      {"top_p is 1.5", [](Request& r) { r.sampling.top_p = 1.5f; }},
      {"top_p is 0", [](Request& r) { r.sampling.top_p = 0; }},
      {"min_p is -0.5", [](Request& r) { r.sampling.min_p = -0.5f; }},
      {"top_k is -2", [](Request& r) { r.sampling.top_k = -2; }},
      {"presence_penalty is inf", [](Request& r) { r.sampling.presence_penalty = INFINITY; }},
      {"frequency_penalty is nan", [](Request& r) { r.sampling.frequency_penalty = NAN; }},
      {"repetition_penalty is 0", [](Request& r) { r.sampling.repetition_penalty = 0; }},
      {"21 alternatives asked for, at most 20", [](Request& r) { r.sampling.logprobs = 21; }},
      {"logit_bias has token 61",
       [](Request& r) {
         r.sampling.logit_bias = {{61, 1}};
       }},
      {"logit_bias of token 3",
       [](Request& r) {
         r.sampling.logit_bias = {{3, NAN}};
       }},
  };
  for (const Case& c : cases) {
    Request request = greedy({1, 2, 3}, 20);
    c.change(request);
    const auto id = engine->submit(request, [](const Update&) { FAIL(); });
    ASSERT_FALSE(id) << c.says;
    EXPECT_EQ(id.error().kind, ErrorKind::invalid);
    EXPECT_NE(id.error().message.find(c.says), std::string::npos) << id.error().message;
  }
}

TEST_P(EngineOn, stop_tokens_end_an_answer_and_min_tokens_hold_them_back) {
  FakeHost host(*GetParam());
  const auto engine = start(host, small());
  const std::vector<int> prompt = prompt_of(50, 3);
  const std::vector<int> free = fake_answer(prompt, 40);
  Request request = greedy(prompt, 40);
  request.stop_tokens = {free[10]};
  Listener stopped, held_back;
  ASSERT_TRUE(engine->submit(request, stopped.sink()));
  request.min_tokens = 40;
  ASSERT_TRUE(engine->submit(request, held_back.sink()));
  stopped.wait();
  held_back.wait();

  const auto first = std::find(free.begin(), free.end(), free[10]);
  EXPECT_EQ(stopped.answers[0].tokens, std::vector<int>(free.begin(), first + 1));
  EXPECT_EQ(stopped.answers[0].finish, Finish::stop);
  EXPECT_EQ(held_back.answers[0].tokens.size(), 40u);
  EXPECT_EQ(held_back.answers[0].finish, Finish::length);
  for (const int token : held_back.answers[0].tokens) EXPECT_NE(token, free[10]);
}

TEST_P(EngineOn, logits_that_are_no_numbers_fail_that_choice_only) {
  FakeHost host(*GetParam());
  const std::vector<int> bad_prompt = prompt_of(50, 1), good_prompt = prompt_of(50, 2);
  const int bad = bad_prompt.back();
  host.model->change_logits = [&](int last, float* row) {
    if (last == bad) std::fill_n(row, testing::kFakeVocab, NAN);
  };
  const auto engine = start(host, small());
  Request good = greedy(good_prompt, 30);
  good.sampling.logit_bias = {{bad, -1000}};  // never comes there itself
  Listener fails, goes_on;
  ASSERT_TRUE(engine->submit(good, goes_on.sink()));
  ASSERT_TRUE(engine->submit(greedy(bad_prompt, 30), fails.sink()));
  fails.wait();
  goes_on.wait();
  EXPECT_EQ(fails.answers[0].finish, Finish::failed);
  EXPECT_TRUE(fails.answers[0].tokens.empty());
  EXPECT_EQ(goes_on.answers[0].finish, Finish::length);
  EXPECT_EQ(goes_on.answers[0].tokens.size(), 30u);
  EXPECT_EQ(engine->stats().finished[int(Finish::failed)], 1);
}

TEST_P(EngineOn, logprobs_come_with_as_many_alternatives_as_asked_for) {
  FakeHost host(*GetParam());
  const auto engine = start(host, small());
  for (const int alternatives : {-1, 0, 3, 20}) {
    Request request = greedy(prompt_of(20, 5), 5);
    request.sampling.logprobs = alternatives;
    Listener listener;
    ASSERT_TRUE(engine->submit(request, listener.sink()));
    listener.wait();
    for (const GeneratedToken& token : listener.answers[0].news) {
      ASSERT_EQ(int(token.top.size()), std::max(alternatives, 0));
      if (alternatives >= 0) {
        EXPECT_LT(token.logprob, 0);
      }
      if (alternatives > 0) {
        EXPECT_EQ(token.top[0].token, token.token);  // greedy
        EXPECT_EQ(token.top[0].logprob, token.logprob);
        EXPECT_GE(token.top[0].logprob, token.top.back().logprob);
      }
    }
  }
}

// What a model says by itself has the same log-probabilities when it is given; what follows is the same.
TEST_P(EngineOn, an_opening_is_told_with_its_logprobs) {
  FakeHost host(*GetParam());
  const auto engine = start(host, small());
  Request request = greedy(prompt_of(20, 5), 12);
  request.sampling.logprobs = 2;
  Listener drawn, given, other;
  ASSERT_TRUE(engine->submit(request, drawn.sink()));
  drawn.wait();
  request.opening.assign(drawn.answers[0].tokens.begin(), drawn.answers[0].tokens.begin() + 7);
  ASSERT_TRUE(engine->submit(request, given.sink()));
  given.wait();
  EXPECT_EQ(given.answers[0].tokens, drawn.answers[0].tokens);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(given.answers[0].news[i].logprob, drawn.answers[0].news[i].logprob, 1e-5);
    EXPECT_EQ(given.answers[0].news[i].top[0].token, drawn.answers[0].news[i].top[0].token);
  }
  // Something else: less likely than what it would have said.
  request.opening[3] = (request.opening[3] + 1) % testing::kFakeVocab;
  ASSERT_TRUE(engine->submit(request, other.sink()));
  other.wait();
  EXPECT_EQ(other.answers[0].tokens[3], request.opening[3]);
  EXPECT_LT(other.answers[0].news[3].logprob, drawn.answers[0].news[3].logprob);
  EXPECT_EQ(other.answers[0].news[3].top[0].token, drawn.answers[0].tokens[3]);
}

TEST_P(EngineOn, a_seed_gives_the_same_tokens_in_any_company) {
  FakeHost host(*GetParam());
  const auto engine = start(host, small());
  Request request = greedy(prompt_of(100, 8), 60);
  request.sampling.temperature = 1;
  request.sampling.seed = 42;
  Listener alone;
  ASSERT_TRUE(engine->submit(request, alone.sink()));
  alone.wait();

  Gate gate(host);
  Listener company[3], again(2), unseeded[2];
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(engine->submit(greedy(prompt_of(40 + i, 20 + i), 70), company[i].sink()));
  request.choices = 2;
  ASSERT_TRUE(engine->submit(request, again.sink()));
  request.choices = 1;
  request.sampling.seed.reset();
  for (Listener& listener : unseeded) ASSERT_TRUE(engine->submit(request, listener.sink()));
  gate.let_go(Gate::kAll);
  for (Listener& listener : company) listener.wait();
  for (Listener& listener : unseeded) listener.wait();
  again.wait();
  EXPECT_EQ(again.answers[0].tokens, alone.answers[0].tokens);
  EXPECT_NE(again.answers[1].tokens, alone.answers[0].tokens);
  EXPECT_NE(unseeded[0].answers[0].tokens, unseeded[1].answers[0].tokens);
}

TEST_P(EngineOn, penalties_and_bias_reach_the_sampler) {
  FakeHost host(*GetParam());
  const auto engine = start(host, small());
  Request biased = greedy(prompt_of(10, 1), 10);
  biased.sampling.logit_bias = {{7, 100}};
  Request never_twice = greedy({1, 2, 3}, testing::kFakeVocab);
  never_twice.sampling.presence_penalty = 1000;
  Request new_words = greedy({1, 2, 3, 4, 5}, testing::kFakeVocab - 5);
  new_words.sampling.repetition_penalty = 1e6f;  // counts the prompt; all logits are positive
  Listener listeners[3];
  ASSERT_TRUE(engine->submit(biased, listeners[0].sink()));
  ASSERT_TRUE(engine->submit(never_twice, listeners[1].sink()));
  ASSERT_TRUE(engine->submit(new_words, listeners[2].sink()));
  for (Listener& listener : listeners) listener.wait();
  EXPECT_EQ(listeners[0].answers[0].tokens, std::vector<int>(10, 7));
  const auto& all = listeners[1].answers[0].tokens;
  EXPECT_EQ(std::set<int>(all.begin(), all.end()).size(), size_t(testing::kFakeVocab));
  const auto& rest = listeners[2].answers[0].tokens;
  std::set<int> words(rest.begin(), rest.end());
  words.insert({1, 2, 3, 4, 5});
  EXPECT_EQ(words.size(), size_t(testing::kFakeVocab));
}

TEST_P(EngineOn, choices_share_the_prompt_with_and_without_a_prefix_cache) {
  for (const bool prefix_cache : {true, false}) {
    FakeHost host(*GetParam());
    EngineOptions options = small();
    options.prefix_cache = prefix_cache;
    const auto engine = start(host, options);
    const std::vector<int> prompt = prompt_of(300, 4);
    for (const int cached : {0, prefix_cache ? 256 : 0}) {
      Request request = greedy(prompt, 20);
      request.choices = 3;
      Listener listener(3);
      ASSERT_TRUE(engine->submit(request, listener.sink()));
      listener.wait();
      for (int choice = 0; choice < 3; ++choice) {
        EXPECT_EQ(listener.answers[size_t(choice)].tokens, fake_answer(prompt, 20));
        EXPECT_EQ(listener.answers[size_t(choice)].cached_tokens, choice == 0 ? cached : 256);
      }
    }
    EXPECT_EQ(engine->stats().prompt_tokens, (prefix_cache ? 300 + 44 : 600) + 4 * 44);
  }
}

TEST_P(EngineOn, a_conversation_goes_on_where_it_was) {
  FakeHost host(*GetParam());
  const auto engine = start(host, small());
  std::vector<int> text = prompt_of(200, 9);
  int cached = 0;
  for (int turn = 0; turn < 4; ++turn) {
    Listener listener;
    ASSERT_TRUE(engine->submit(greedy(text, 90), listener.sink()));
    listener.wait();
    EXPECT_EQ(listener.answers[0].tokens, fake_answer(text, 90));
    EXPECT_EQ(listener.answers[0].cached_tokens, cached);
    text.insert(text.end(), listener.answers[0].tokens.begin(), listener.answers[0].tokens.end());
    cached = (int(text.size()) - 1) / kPageSize * kPageSize;  // the last token was not computed
    for (const int token : prompt_of(30, turn)) text.push_back(token);
  }
}

TEST_P(EngineOn, without_a_prefix_cache_nothing_is_kept) {
  FakeHost host(*GetParam());
  EngineOptions options = small();
  options.prefix_cache = false;
  const auto engine = start(host, options);
  for (int i = 0; i < 2; ++i) {
    Listener listener;
    ASSERT_TRUE(engine->submit(greedy(prompt_of(300, 4), 20), listener.sink()));
    listener.wait();
    EXPECT_EQ(listener.answers[0].tokens, fake_answer(prompt_of(300, 4), 20));
    EXPECT_EQ(listener.answers[0].cached_tokens, 0);
  }
  EXPECT_EQ(engine->stats().pages_cached[0], 0);
}

TEST_P(EngineOn, a_salt_keeps_prompts_apart) {
  FakeHost host(*GetParam());
  const auto engine = start(host, small());
  for (const char* salt : {"a", "b", "a"}) {
    Request request = greedy(prompt_of(200, 9), 5);
    request.cache_salt = salt;
    Listener listener;
    ASSERT_TRUE(engine->submit(request, listener.sink()));
    listener.wait();
  }
  EXPECT_EQ(engine->stats().prefix_queries, 600);
  EXPECT_EQ(engine->stats().prefix_hits, 192);
}

// Penalties need the token before: those that have them wait for it, beside others that need not.
TEST_P(EngineOn, penalties_beside_others_see_every_token) {
  FakeHost host(*GetParam());
  const auto engine = start(host, small());
  std::vector<std::vector<int>> answers;
  for (const bool company : {false, true}) {
    Listener other, never_twice;
    if (company) {
      ASSERT_TRUE(engine->submit(greedy(prompt_of(30, 1), 90), other.sink()));
    }
    Request request = greedy({1, 2, 3}, testing::kFakeVocab);
    request.sampling.presence_penalty = 1000;
    ASSERT_TRUE(engine->submit(request, never_twice.sink()));
    never_twice.wait();
    answers.push_back(never_twice.answers[0].tokens);
    if (!company) continue;
    other.wait();
    EXPECT_EQ(other.answers[0].tokens, fake_answer(prompt_of(30, 1), 90));
  }
  EXPECT_EQ(std::set<int>(answers[0].begin(), answers[0].end()).size(),
            size_t(testing::kFakeVocab));
  EXPECT_EQ(answers[0], answers[1]);
}

TEST_P(EngineOn, options_that_cannot_be) {
  struct Case {
    const char* says;
    std::function<void(EngineOptions&)> change;
  };
  const Case cases[] = {
      {"max_seqs is 0, must be 1 or more", [](EngineOptions& o) { o.max_seqs = 0; }},
      {"max_waiting is 0", [](EngineOptions& o) { o.max_waiting = 0; }},
      {"max_context is 2000000, the model can do 1048576",
       [](EngineOptions& o) { o.max_context = 2000000; }},
      {"max_context is 1:", [](EngineOptions& o) { o.max_context = 1; }},
      {"max_tokens_per_step is 0", [](EngineOptions& o) { o.max_tokens_per_step = 0; }},
      {"kv_bytes is -1", [](EngineOptions& o) { o.kv_bytes = -1; }},
      {"the tokenizer has 62 tokens, the model 61 rows", [](EngineOptions& o) { o.vocab = 62; }},
      {"a context of 1024 tokens needs", [](EngineOptions& o) { o.kv_bytes = 1000; }},
  };
  for (const Case& c : cases) {
    FakeHost host(*GetParam());
    EngineOptions options = small();
    c.change(options);
    const auto engine = Engine::start(host.loaded, host.stream, options);
    ASSERT_FALSE(engine) << c.says;
    EXPECT_NE(engine.error().message.find(c.says), std::string::npos) << engine.error().message;
  }
}

TEST_P(EngineOn, tokens_past_the_vocabulary_never_come_out) {
  FakeHost host(*GetParam());
  EngineOptions options = small();
  options.vocab = 10;
  const auto engine = start(host, options);
  Listener listener;
  ASSERT_TRUE(engine->submit(greedy({1, 2, 3}, 50), listener.sink()));
  listener.wait();
  for (const int token : listener.answers[0].tokens) EXPECT_LT(token, 10);
}

}  // namespace
}  // namespace rose
