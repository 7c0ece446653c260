#include "engine/step_trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"

namespace rose {
namespace {

TEST(StepTrace, is_json_with_an_event_for_each_step_and_lane) {
  const std::string path = std::filesystem::path(testing::TempDir()) /
                           strf("rose_trace_%d.json", getpid());
  {
    auto trace = StepTrace::open(path);
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_GE((*trace)->now(), 0);
    (*trace)->add(
        {.begin = 1, .end = 1.5, .tokens = 700, .seqs = 3, .samples = 2});
    (*trace)->add({.begin = 1.5,
                   .end = 1.75,
                   .device = 0.125,
                   .tokens = 4,
                   .seqs = 4,
                   .samples = 4});
  }
  const auto text = read_file(path);
  ASSERT_TRUE(text) << text.error().message;
  const auto json = parse_json(*text);
  ASSERT_TRUE(json) << json.error().message;
  ASSERT_EQ(json->size(), 5u); // two names of lanes, three events
  const Json &first = (*json)[2];
  EXPECT_EQ(first["name"], "step 700");
  EXPECT_EQ(first["ts"], 1e6);
  EXPECT_EQ(first["dur"], 0.5e6);
  EXPECT_EQ(first["args"],
            (Json{{"tokens", 700}, {"sequences", 3}, {"samples", 2}}));
  EXPECT_EQ((*json)[3]["name"], "decode 4");
  const Json &device = (*json)[4]; // it ends with the step
  EXPECT_EQ(device["tid"], 2);
  EXPECT_EQ(device["ts"], 1.625e6);
  EXPECT_EQ(device["dur"], 0.125e6);
  std::filesystem::remove(path);
}

TEST(StepTrace, a_place_that_cannot_be_written_is_named) {
  const auto trace = StepTrace::open("/nowhere/trace.json");
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().message, "cannot write /nowhere/trace.json");
}

} // namespace
} // namespace rose
