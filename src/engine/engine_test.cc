#include "engine/engine.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "engine/fake_model.h"

namespace rose {
namespace {

using testing::fake_answer;
using testing::FakeHost;

// Collects what one request is told; `wait` returns when every choice has ended.
class Listener {
 public:
  explicit Listener(int choices = 1) : answers(size_t(choices)), open_(choices) {}

  Sink sink() {
    return [this](const Update& update) {
      const std::lock_guard lock(mutex_);
      Answer& answer = answers[size_t(update.choice)];
      EXPECT_EQ(answer.finish, Finish::none) << "told after the end";
      for (const GeneratedToken& token : update.tokens) {
        answer.tokens.push_back(token.token);
        answer.news.push_back(token);
      }
      answer.finish = update.finish;
      answer.cached_tokens = update.cached_tokens;
      if (update.finish != Finish::none) --open_;
      changed_.notify_all();
    };
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_ == 0; });
  }
  void wait_for_tokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answers[0].tokens.size() >= count || open_ == 0; });
  }

  struct Answer {
    std::vector<int> tokens;
    std::vector<GeneratedToken> news;
    Finish finish = Finish::none;
    int cached_tokens = 0;
  };
  std::vector<Answer> answers;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_;
};

std::vector<int> prompt_of(int tokens, int seed) {
  std::vector<int> prompt;
  for (int i = 0; i < tokens; ++i)
    prompt.push_back(int(random_bits(uint64_t(seed), uint64_t(i)) % testing::kFakeVocab));
  return prompt;
}

Request greedy(std::vector<int> prompt, int max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

std::unique_ptr<Engine> start(FakeHost& host, EngineOptions options) {
  options.check_invariants = true;
  auto engine = Engine::start(host.loaded, host.stream, options);
  EXPECT_TRUE(engine.has_value()) << engine.error().message;
  return engine ? std::move(*engine) : nullptr;
}

EngineOptions small() {
  return {.max_context = 1024,
          .max_seqs = 4,
          .max_tokens_per_step = 96,
          .kv_bytes = 64 * testing::fake_page_bytes()};
}

TEST(Engine, one_request_gets_the_models_own_tokens) {
  FakeHost host;
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

}  // namespace
}  // namespace rose
