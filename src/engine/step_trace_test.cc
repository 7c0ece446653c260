#include "engine/step_trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "device/arena.h"
#include "engine/launcher.h"

namespace rose {
namespace {

TEST(StepTrace, is_json_with_an_event_for_each_step_and_lane) {
  const std::string path =
      std::filesystem::path(::testing::TempDir()) / strf("rose_trace_%d.json", getpid());
  {
    auto trace = StepTrace::open(path);
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_GE((*trace)->now(), 0);
    (*trace)->add({.begin = 1, .end = 1.5, .tokens = 700, .seqs = 3, .samples = 2});
    (*trace)->add(
        {.begin = 1.5, .end = 1.75, .device = 0.125, .tokens = 4, .seqs = 4, .samples = 4});
  }
  const auto text = read_file(path);
  ASSERT_TRUE(text) << text.error().message;
  const auto json = parse_json(*text);
  ASSERT_TRUE(json) << json.error().message;
  ASSERT_EQ(json->size(), 5u);  // two names of lanes, three events
  const Json& first = (*json)[2];
  EXPECT_EQ(first["name"], "step 700");
  EXPECT_EQ(first["ts"], 1e6);
  EXPECT_EQ(first["dur"], 0.5e6);
  EXPECT_EQ(first["args"], (Json{{"tokens", 700}, {"sequences", 3}, {"samples", 2}}));
  EXPECT_EQ((*json)[3]["name"], "decode 4");
  const Json& device = (*json)[4];  // it ends with the step
  EXPECT_EQ(device["tid"], 2);
  EXPECT_EQ(device["ts"], 1.625e6);
  EXPECT_EQ(device["dur"], 0.125e6);
  std::filesystem::remove(path);
}

TEST(StepTrace, a_launcher_tells_of_each_step) {
  const std::string path =
      std::filesystem::path(::testing::TempDir()) / strf("rose_steps_%d.json", getpid());
  const Ops& ops = reference_ops();
  ThreadPool threads(1);
  Arena scratch(*ops.device);
  Stream stream = {.device = ops.device, .threads = &threads, .scratch = &scratch};
  LoadOptions options;
  options.model = ROSE_SOURCE_DIR "/tests/golden/tiny";
  const auto loaded = load_model(options, **find_recipe("f32"), stream, ops);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto kv = KvCache::allocate(*ops.device, loaded->model->kv_spec(DType::f32), {1, 1});
  ASSERT_TRUE(kv);
  {
    const auto trace = StepTrace::open(path);
    ASSERT_TRUE(trace);
    const auto launcher = Launcher::make(*loaded, *kv, stream,
                                         {.vocab = 64, .most_samples = 1, .trace = trace->get()});
    ASSERT_TRUE(launcher);
    HostBatch batch;
    batch.token_ids = {1, 2, 3};
    batch.positions = {0, 1, 2};
    batch.sequence = {0, 0, 0};
    batch.first = {0, 3};
    batch.sampled = {2};
    batch.rows = {{.temperature = 0}};
    batch.width = 1;
    for (auto& table : batch.pages) table = {0};
    (*launcher)->land((*launcher)->launch(batch));
  }
  const auto json = parse_json(*read_file(path));
  ASSERT_TRUE(json) << json.error().message;
  ASSERT_EQ(json->size(), 3u);  // the host has no lane of a device
  EXPECT_EQ((*json)[2]["name"], "step 3");
  EXPECT_EQ((*json)[2]["args"], (Json{{"tokens", 3}, {"sequences", 1}, {"samples", 1}}));
  EXPECT_GT((*json)[2]["dur"], 0);
  std::filesystem::remove(path);
}

TEST(StepTrace, a_place_that_cannot_be_written_is_named) {
  const auto trace = StepTrace::open("/nowhere/trace.json");
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().message, "cannot write /nowhere/trace.json");
}

}  // namespace
}  // namespace rose
