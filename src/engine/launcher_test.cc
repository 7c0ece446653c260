#include "engine/launcher.h"

#include <gtest/gtest.h>

#include "engine/demo_rig.h"
#include "engine/fake_model.h"

namespace rose {
namespace {

// `seqs` sequences that feed tokens [first, first + count) of their texts; each has pages of its own. A
// token that is negative is what the step before drew.
HostBatch step_of(const std::vector<std::vector<int>>& texts, int first, int count, bool each,
                  int width) {
  HostBatch batch = {.first = {0}, .width = width};
  for (size_t seq = 0; seq < texts.size(); ++seq) {
    for (int i = 0; i < count; ++i) {
      batch.token_ids.push_back(texts[seq][size_t(first + i)]);
      batch.positions.push_back(first + i);
      batch.sequence.push_back(int(seq));
      if (each || i == count - 1) {
        batch.sampled.push_back(int(batch.token_ids.size()) - 1);
        batch.rows.push_back({.temperature = 0});
      }
    }
    batch.first.push_back(int(batch.token_ids.size()));
    for (auto& pages : batch.pages)
      for (int page = 0; page < width; ++page) pages.push_back(int(seq) * width + page);
  }
  return batch;
}

std::vector<int> tokens_of(std::span<const Sampled> results) {
  std::vector<int> tokens;
  for (const Sampled& result : results) tokens.push_back(result.token);
  return tokens;
}

struct FakeLauncher {
  explicit FakeLauncher(const Device& device) : host(device) {
    kv = std::move(*KvCache::allocate(device, host.model->kv_spec(DType::f32), {8, 8}));
    launcher = std::move(*Launcher::make(host.loaded, kv, host.stream,
                                         {.vocab = testing::kFakeVocab, .most_samples = 4}));
  }
  testing::FakeHost host;
  KvCache kv;
  std::unique_ptr<Launcher> launcher;
};

// Every step feeds what the one before drew, which nobody has looked at.
TEST(Launcher, a_step_feeds_what_the_step_before_drew) {
  FakeLauncher fake(testing::late_device());
  const std::vector<int> one = {1, 2, 3}, two = {9, 8, 7};
  const std::vector<int> want[] = {testing::fake_answer(one, 6), testing::fake_answer(two, 6)};
  int64_t under_way = fake.launcher->launch(step_of({one, two}, 0, 3, false, 2));
  for (int step = 0; step < 6; ++step) {
    std::vector<int> fed[2] = {one, two};
    for (int seq = 0; seq < 2; ++seq) fed[seq].resize(size_t(4 + step), -1 - seq);
    const int64_t next = fake.launcher->launch(step_of({fed[0], fed[1]}, 3 + step, 1, false, 2));
    EXPECT_EQ(tokens_of(fake.launcher->land(under_way)),
              (std::vector<int>{want[0][size_t(step)], want[1][size_t(step)]}));
    under_way = next;
  }
}

TEST(Launcher, rows_for_later_are_drawn_with_what_is_found_meanwhile) {
  FakeLauncher fake(host_device());
  HostBatch step = step_of({{1, 2, 3}, {9, 8, 7}, {4, 4, 4}}, 0, 3, false, 2);
  const TokenBias always[] = {{17, 1000}};
  step.rows[0].bias = always;
  step.rows[1].later = true;
  const uint32_t only[] = {0, 1u << 8};  // token 40
  const int64_t number = fake.launcher->launch(step, [&](std::span<SampleRow> rows) {
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_FALSE(rows[0].later);
    EXPECT_TRUE(rows[1].later);
    rows[1].later = false;
    rows[1].allowed = only;
  });
  EXPECT_EQ(tokens_of(fake.launcher->land(number)),
            (std::vector<int>{17, 40, testing::fake_answer({4, 4, 4}, 1)[0]}));
}

TEST(LauncherDeath, a_third_step_waits_for_the_first) {
  FakeLauncher fake(testing::late_device());
  fake.launcher->launch(step_of({{1, 2, 3}}, 0, 1, false, 1));
  fake.launcher->launch(step_of({{1, 2, 3}}, 1, 1, false, 1));
  EXPECT_DEATH(fake.launcher->launch(step_of({{1, 2, 3}}, 2, 1, false, 1)), "has not landed");
  fake.launcher->land(0);
  fake.launcher->land(1);
}

// One token a sequence, several that all sample, and a size between two that are recorded.
TEST(Launcher, recorded_steps_give_the_tokens_of_those_that_are_not) {
  testing::DemoRig demo("bf16");
  const LoadedModel& loaded = demo.loaded;
  for (const int seqs : {1, 5, 8}) {
    std::vector<std::vector<int>> texts;
    for (int seq = 0; seq < seqs; ++seq) {
      texts.emplace_back();
      for (int i = 0; i < 90; ++i)
        texts.back().push_back(int(random_bits(uint64_t(seq), uint64_t(i)) % 2000));
    }
    std::vector<std::vector<int>> answers[2];
    for (const bool eager : {false, true}) {
      const KvCache kv = std::move(*KvCache::allocate(
          *demo.ops.device, loaded.model->kv_spec(loaded.recipe->kv), {2 * seqs, 2 * seqs}));
      const auto launcher = std::move(*Launcher::make(
          loaded, kv, demo.stream,
          {.vocab = loaded.model->config().vocab, .most_samples = 64, .enforce_eager = eager}));
      launcher->land(launcher->launch(step_of(texts, 0, 70, false, 2)));
      int at = 70;
      for (const int count : {1, 4, 1, 5}) {
        answers[eager].push_back(
            tokens_of(launcher->land(launcher->launch(step_of(texts, at, count, count > 1, 2)))));
        at += count;
      }
      EXPECT_EQ(launcher->graphs().recorded(), eager || !launcher->records() ? 0 : 3);
    }
    EXPECT_EQ(answers[0], answers[1]) << seqs << " sequences";
  }
}

}  // namespace
}  // namespace rose
