// Random requests through scheduler, launcher and the fastest backend there is, one step ahead, many times
// over: nothing breaks, pages stay right, and a second run gives the same tokens. ROSE_STRESS_STEPS=10000
// makes it as long as one has patience for.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/rng.h"
#include "engine/demo_rig.h"
#include "engine/runner.h"

namespace rose {
namespace {

// Allows tokens of one parity only: a choice that must wait for its masks.
class Parity final : public TokenConstraint {
 public:
  explicit Parity(int vocab) : mask_(size_t(vocab + 31) / 32, 0x55555555u) {}
  std::span<const uint32_t> mask() override { return mask_; }
  void accept(int token) override { ROSE_CHECK(token % 2 == 0, "token %d was not allowed", token); }
  bool complete() override { return false; }

 private:
  std::vector<uint32_t> mask_;
};

struct Outcome {
  std::map<std::pair<uint64_t, int>, std::vector<int>> answers;
  int64_t steps = 0, tokens = 0;
  int ended[5] = {};
};

class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  int below(int n) { return int(random_bits(seed_, draws_++) % uint64_t(n)); }

 private:
  uint64_t seed_, draws_ = 0;
};

Request random_request(Random& random, int vocab) {
  Request request;
  const int length = 1 + random.below(random.below(8) == 0 ? 700 : 60);
  const int shared = random.below(3) == 0 ? random.below(length) : 0;
  for (int i = 0; i < length; ++i)
    request.prompt.push_back(i < shared ? i % vocab : random.below(vocab));
  request.max_tokens = 1 + random.below(60);
  request.sampling.temperature = random.below(2) == 0 ? 0 : 1;
  request.sampling.seed = 1;
  if (random.below(4) == 0) request.sampling.top_p = 0.9f;
  if (random.below(4) == 0) request.sampling.top_k = 1 + random.below(50);
  if (random.below(8) == 0) request.sampling.logprobs = random.below(5);
  if (random.below(12) == 0) request.sampling.frequency_penalty = 0.5f;
  if (random.below(8) == 0) request.sampling.logit_bias = {{random.below(vocab), 3}};
  if (random.below(6) == 0) request.choices = 1 + random.below(3);
  if (random.below(4) == 0) request.stop_tokens = {random.below(vocab), random.below(vocab)};
  if (random.below(8) == 0) request.min_tokens = random.below(request.max_tokens);
  if (random.below(16) == 0)
    request.constraint = [vocab] { return std::make_unique<Parity>(vocab); };
  return request;
}

Outcome stress(const LoadedModel& model, Stream& stream, uint64_t seed, int64_t steps, int seqs) {
  const int vocab = model.model->config().vocab, context = 1024;
  const SchedulerLimits limits = {.tokens_per_step = 300,
                                  .seqs = seqs,
                                  .window = model.model->config().window,
                                  .pages = {seqs * 3 + 16, seqs * 3 + 8}};
  auto runner = Runner::make(model, stream, limits.pages, {.vocab = vocab, .most_samples = seqs});
  EXPECT_TRUE(runner) << runner.error().message;
  Scheduler scheduler(limits);
  Random random(seed);
  Outcome outcome;
  const Scheduler::Tell tell = [&](const Sequence& sequence, const Sampled* sampled) {
    if (sampled) outcome.answers[{sequence.request, sequence.choice}].push_back(sampled->token);
    outcome.tokens += sampled != nullptr;
    ++outcome.ended[int(sequence.finish)];
  };
  std::unique_ptr<Flight> under_way;
  const auto settle = [&] {
    if (!under_way) return;
    scheduler.settle(under_way->step, runner->land(*under_way), tell);
    under_way.reset();
  };
  for (uint64_t id = 0; outcome.steps < steps || !scheduler.idle();) {
    while (outcome.steps < steps && scheduler.waiting() < 4 && random.below(3) > 0) {
      const Request request = random_request(random, vocab);
      auto first = make_sequence(request, id, 0, id, context);
      for (int choice = 1; choice < request.choices; ++choice)
        first->siblings.push_back(make_sequence(request, id, choice, id, context));
      scheduler.add(std::move(first));
      ++id;
    }
    if (id > 0 && random.below(30) == 0) scheduler.cancel(uint64_t(random.below(int(id))), tell);
    if (scheduler.needs_tokens()) settle();
    Step step = scheduler.plan();
    std::unique_ptr<Flight> launched;
    if (!step.empty()) {
      launched = runner->launch(std::move(step));
      ++outcome.steps;
    }
    settle();
    under_way = std::move(launched);
    scheduler.check();
  }
  for (const Pool pool : {Pool::full, Pool::sliding}) EXPECT_EQ(scheduler.pool(pool).held(), 0);
  return outcome;
}

TEST(Stress, random_steps_twice) {
  const char* wanted = std::getenv("ROSE_STRESS_STEPS");
  const int64_t steps = wanted ? std::atoll(wanted) : 40;
  testing::DemoRig demo;
  for (const int seqs : {3, 20}) {
    const Outcome one = stress(demo.loaded, demo.stream, uint64_t(seqs), steps / 2, seqs);
    const Outcome two = stress(demo.loaded, demo.stream, uint64_t(seqs), steps / 2, seqs);
    EXPECT_EQ(one.answers, two.answers);
    EXPECT_GT(one.tokens, steps / 2);
    EXPECT_EQ(one.ended[int(Finish::failed)], 0);
    std::printf("%d sequences: %ld steps, %ld tokens, %zu answers\n", seqs, long(one.steps),
                long(one.tokens), one.answers.size());
  }
}

}  // namespace
}  // namespace rose
