// The demo model through scheduler, pages and runner: whatever the schedule, each prompt gets the tokens
// that another implementation's float32 forward pass gives it (tests/golden/demo.safetensors).
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "engine/demo_rig.h"
#include "engine/runner.h"
#include "tensor/safetensors.h"
#include "testing/watched.h"

namespace rose {
namespace {

struct Golden {
  std::vector<int> prompt, answer;
};

// Texts end with an answer that the model also gives by itself: the tokens at the end that are each the
// arg max after those before. The text up to there is the prompt.
std::vector<Golden> read_goldens() {
  std::vector<Golden> goldens;
  const auto file = Safetensors::open(ROSE_SOURCE_DIR "/tests/golden/demo.safetensors");
  EXPECT_TRUE(file) << file.error().message;
  const auto read = [&](const std::string& name) {
    const auto bytes = file->bytes(file->entries().at(name));
    std::vector<int32_t> values(bytes.size() / sizeof(int32_t));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  for (int i = 0; i < 8; ++i) {
    const std::vector<int32_t> ids = read(strf("ids%d", i)), best = read(strf("argmax%d", i));
    size_t prompt = ids.size();
    while (prompt > 1 && best[prompt - 2] == ids[prompt - 1]) --prompt;
    const auto middle = ids.begin() + std::ptrdiff_t(prompt);
    goldens.push_back({{ids.begin(), middle}, {middle, ids.end()}});
  }
  return goldens;
}

struct Schedule {
  const char* name;
  SchedulerLimits limits;
  std::vector<int> goldens;
  int choices = 1;
  int rounds = 1;  // the same prompts again, to find them cached
  bool eager = false;
};

// Runs all at once, as far as the limits allow, and compares.
SchedulerCounts answer_goldens(const LoadedModel& model, Stream& stream,
                               const std::vector<Golden>& goldens, const Schedule& schedule) {
  SCOPED_TRACE(strf("%s, %s, %s", model.ops->name, model.recipe->name, schedule.name));
  auto runner =
      Runner::make(model, stream, schedule.limits.pages, {.vocab = model.model->config().vocab});
  EXPECT_TRUE(runner) << runner.error().message;
  Scheduler scheduler(schedule.limits);
  std::map<std::pair<uint64_t, int>, std::vector<int>> answers;
  const Scheduler::Tell tell = [&](const Sequence& sequence, Sampled* sampled) {
    if (sampled) answers[{sequence.request, sequence.choice}].push_back(sampled->token);
  };
  for (int round = 0; round < schedule.rounds; ++round) {
    answers.clear();
    for (const int id : schedule.goldens) {
      const Golden& golden = goldens[size_t(id)];
      Request request;
      request.prompt = golden.prompt;
      request.max_tokens = int(golden.answer.size());
      request.sampling.temperature = 0;
      const int context = int(golden.prompt.size() + golden.answer.size());
      auto first = make_sequence(request, uint64_t(id), 0, 0, context);
      for (int choice = 1; choice < schedule.choices; ++choice)
        first->siblings.push_back(make_sequence(request, uint64_t(id), choice, 0, context));
      scheduler.add(std::move(first));
    }
    std::unique_ptr<Flight> under_way;  // one step ahead, on every device
    while (!scheduler.idle()) {
      Step step = scheduler.plan();
      std::unique_ptr<Flight> launched;
      if (!step.empty()) launched = runner->launch(std::move(step));
      if (under_way) scheduler.settle(under_way->step, runner->land(*under_way), tell);
      under_way = std::move(launched);
      scheduler.check();
    }
    for (const int id : schedule.goldens)
      for (int choice = 0; choice < schedule.choices; ++choice)
        EXPECT_EQ((answers[{uint64_t(id), choice}]), goldens[size_t(id)].answer)
            << "prompt " << id << ", choice " << choice << ", round " << round;
  }
  return scheduler.counts();
}

TEST(DemoModel, any_schedule_gives_the_golden_answers) {
  const std::vector<Golden> goldens = read_goldens();
  for (const Golden& golden : goldens) ASSERT_GE(golden.answer.size(), 12u);

  testing::DemoRig demo("bf16");
  const int window = demo.loaded.model->config().window;

  const std::vector<int> some = {0, 1, 2, 3, 4, 5};
  const std::vector<int> all = testing::watched() ? some : std::vector{0, 1, 2, 3, 4, 5, 6, 7};
  const auto limits = [&](int tokens, int seqs, int full, int sliding) {
    return SchedulerLimits{
        .tokens_per_step = tokens, .seqs = seqs, .window = window, .pages = {full, sliding}};
  };
  const auto counts = [&](const Schedule& schedule) {
    return answer_goldens(demo.loaded, demo.stream, goldens, schedule);
  };
  counts({"one at a time", limits(4096, 1, 40, 80), all});
  counts({"all at once", limits(4096, 8, 128, 128), all});
  if (demo.ops.device->begin_graph) counts({"eager", limits(4096, 8, 128, 128), all, 1, 1, true});
  counts({"chunks of 37", limits(37, 8, 64, 32), some});
  const SchedulerCounts few = counts({"few pages", limits(150, 8, 14, 7), some});
  EXPECT_GT(few.preemptions, 0);
  const SchedulerCounts again = counts({"again", limits(300, 8, 64, 64), some, 1, 2});
  EXPECT_GT(again.prefix_hits, again.prefix_queries / 3);
  const SchedulerCounts choices = counts({"choices", limits(300, 8, 64, 64), some, 3});
  EXPECT_GT(choices.prefix_hits, choices.prefix_queries / 2);
}

}  // namespace
}  // namespace rose
