#include "api/stats_line.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

TEST(StatsLine, says_what_happened_since_the_last_one_in_known_words) {
  StatsLine line;
  const Time start{std::chrono::seconds(100)};
  EngineStats stats;
  stats.prompt_tokens = 1000;
  EXPECT_EQ(line.next(stats, start), "");
  EXPECT_EQ(line.next(stats, start + std::chrono::seconds(10)), "") << "idle";
  stats.steps = 7;
  stats.prompt_tokens += 21191;
  stats.generated_tokens += 255;
  stats.running = 16;
  stats.pages[0] = 1000;
  stats.pages_free[0] = 999;
  stats.prefix_queries = 1000;
  stats.prefix_hits = 738;
  EXPECT_EQ(line.next(stats, start + std::chrono::seconds(20)),
            "Engine 000: Avg prompt throughput: 2119.1 tokens/s, Avg generation throughput: 25.5 "
            "tokens/s, Running: 16 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%, Prefix cache "
            "hit rate: 73.8%");
  EXPECT_NE(line.next(stats, start + std::chrono::seconds(30)), "") << "they still run";
  stats.running = 0;
  ++stats.steps;
  EXPECT_NE(line.next(stats, start + std::chrono::seconds(35)), "") << "what ran has ended";
  EXPECT_EQ(line.next(stats, start + std::chrono::seconds(40)), "");
}

}  // namespace
}  // namespace rose
