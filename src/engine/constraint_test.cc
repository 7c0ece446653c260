// Choices under a constraint: its masks hold, each choice has its own, and it ends what is complete.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>

#include "engine/engine.h"
#include "engine/fake_model.h"

namespace rose {
namespace {

using testing::FakeHost;
using testing::kFakeVocab;

// In order: one of 10 to 12, then 13, then kLast; with `loops`, any number of 20 to 30 before that.
class Counting final : public TokenConstraint {
 public:
  explicit Counting(bool loops) : loops_(loops) {}

  std::span<const uint32_t> mask() override {
    mask_.assign((kFakeVocab + 31) / 32, 0);
    const auto allow = [&](int token) { mask_[size_t(token) / 32] |= 1u << (token % 32); };
    if (told_ == 0)
      for (int token = 10; token <= 12; ++token) allow(token);
    if (told_ == 1) allow(13);
    if (told_ >= 2) allow(kLast);
    for (int token = 20; loops_ && told_ >= 2 && token <= 30; ++token) allow(token);
    return mask_;
  }
  void accept(int token) override {
    const std::span<const uint32_t> allowed = mask();
    ASSERT_TRUE(allowed[size_t(token) / 32] >> (token % 32) & 1) << token << " after " << told_;
    ++told_;
    complete_ = token == kLast;
  }
  bool complete() override { return complete_; }

  static constexpr int kLast = 40;

 private:
  const bool loops_;
  int told_ = 0;
  bool complete_ = false;
  std::vector<uint32_t> mask_;
};

struct Answers {
  explicit Answers(int choices) : tokens(size_t(choices)), finish(size_t(choices)), open(choices) {}

  Sink sink() {
    return [this](const Update& update) {
      const std::lock_guard lock(mutex);
      for (const GeneratedToken& token : update.tokens)
        tokens[size_t(update.choice)].push_back(token.token);
      finish[size_t(update.choice)] = update.finish;
      if (update.finish != Finish::none) --open;
      changed.notify_all();
    };
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open == 0; });
  }

  std::vector<std::vector<int>> tokens;
  std::vector<Finish> finish;
  std::mutex mutex;
  std::condition_variable changed;
  int open;
};

class ConstraintOn : public ::testing::TestWithParam<const Device*> {};
INSTANTIATE_TEST_SUITE_P(, ConstraintOn, ::testing::Values(&host_device(), &testing::late_device()),
                         [](const auto& info) { return std::string(info.param->name); });

// Beside one that is free, whose tokens must be its own.
void answer_beside_another(Request request, bool loops, Answers& answers) {
  FakeHost host(*ConstraintOn::GetParam());
  auto engine = Engine::start(host.loaded, host.stream,
                              {.max_context = 1024,
                               .max_seqs = 4,
                               .max_tokens_per_step = 96,
                               .kv_bytes = 64 * testing::fake_page_bytes(),
                               .check_invariants = true});
  ASSERT_TRUE(engine) << engine.error().message;
  Answers free(1);
  Request other = {.prompt = {4, 5}, .max_tokens = 40};
  other.sampling.temperature = 0;
  ASSERT_TRUE((*engine)->submit(other, free.sink()));
  request.prompt = {1, 2, 3};
  request.constraint = [loops] { return std::make_unique<Counting>(loops); };
  ASSERT_TRUE((*engine)->submit(request, answers.sink()));
  answers.wait();
  free.wait();
  EXPECT_EQ(free.tokens[0], testing::fake_answer({4, 5}, 40));
}

void expect_legal(const std::vector<int>& tokens) {
  ASSERT_GE(tokens.size(), 3u);
  EXPECT_TRUE(tokens[0] >= 10 && tokens[0] <= 12);
  EXPECT_EQ(tokens[1], 13);
  EXPECT_EQ(tokens.back(), Counting::kLast);
}

TEST_P(ConstraintOn, ends_each_choice_where_nothing_may_follow) {
  Answers answers(8);
  answer_beside_another(
      {.sampling = {.temperature = 50, .seed = 1}, .choices = 8, .max_tokens = 50}, false, answers);
  std::set<int> firsts;
  for (int choice = 0; choice < 8; ++choice) {
    expect_legal(answers.tokens[size_t(choice)]);
    EXPECT_EQ(answers.tokens[size_t(choice)].size(), 3u);
    EXPECT_EQ(answers.finish[size_t(choice)], Finish::stop);
    firsts.insert(answers.tokens[size_t(choice)][0]);
  }
  EXPECT_GT(firsts.size(), 1u);  // they are drawn, each for itself
}

TEST_P(ConstraintOn, min_tokens_bans_stop_tokens_while_others_are_possible) {
  Answers answers(4);
  answer_beside_another(
      {.choices = 4, .max_tokens = 500, .min_tokens = 100, .stop_tokens = {Counting::kLast}}, true,
      answers);
  for (const std::vector<int>& tokens : answers.tokens) {
    expect_legal(tokens);
    EXPECT_GT(tokens.size(), 100u);
  }
}

TEST_P(ConstraintOn, min_tokens_gives_way_where_only_stop_tokens_are_possible) {
  Answers answers(1);
  answer_beside_another({.max_tokens = 500, .min_tokens = 100, .stop_tokens = {Counting::kLast}},
                        false, answers);
  expect_legal(answers.tokens[0]);
  EXPECT_EQ(answers.tokens[0].size(), 3u);
  EXPECT_EQ(answers.finish[0], Finish::stop);
}

TEST_P(ConstraintOn, max_tokens_cuts_it_off) {
  Answers answers(1);
  answer_beside_another({.max_tokens = 2}, true, answers);
  EXPECT_EQ(answers.tokens[0].size(), 2u);
  EXPECT_EQ(answers.finish[0], Finish::length);
}

}  // namespace
}  // namespace rose
