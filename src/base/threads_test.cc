#include "base/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace rose {
namespace {

TEST(ThreadPool, every_thread_runs_the_body_once) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    std::vector<int> runs(size_t(threads), 0);
    pool.run([&](int thread) { ++runs[size_t(thread)]; });
    EXPECT_EQ(runs, std::vector<int>(size_t(threads), 1)) << threads;
  }
}

TEST(ThreadPool, by_default_one_thread_for_each_core) {
  EXPECT_GE(available_cores(), 1);
  EXPECT_EQ(ThreadPool().threads(), available_cores());
}

// What a loop wrote, the next one reads on other threads: thousands of forks and joins, no data race.
TEST(ThreadPool, a_loop_sees_all_that_the_one_before_wrote) {
  constexpr int kThreads = 4, kLoops = 3000;
  ThreadPool pool(kThreads);
  std::vector<int> values(kThreads, 0), next(kThreads, 0);
  for (int loop = 0; loop < kLoops; ++loop) {
    pool.run([&](int thread) { next[size_t(thread)] = values[size_t(thread + 1) % kThreads] + 1; });
    values.swap(next);
  }
  EXPECT_EQ(values, std::vector<int>(kThreads, kLoops));
}

using Parts = std::vector<std::pair<int64_t, int64_t>>;

Parts parts_of(ThreadPool& pool, int64_t count, int64_t grain) {
  std::mutex mutex;
  Parts parts;
  pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    parts.push_back({begin, end});
  });
  std::sort(parts.begin(), parts.end());
  return parts;
}

TEST(ThreadPool, parallel_for_covers_each_index_once_in_whole_grains) {
  ThreadPool pool(3);
  for (const int64_t count : {0, 1, 15, 16, 17, 48, 100, 1000})
    for (const int64_t grain : {1, 16, 64}) {
      const Parts parts = parts_of(pool, count, grain);
      int64_t at = 0;
      for (const auto& [begin, end] : parts) {
        EXPECT_EQ(begin, at);
        EXPECT_LT(begin, end);
        if (end != count) {
          EXPECT_EQ(end % grain, 0) << count << " by " << grain;
        }
        at = end;
      }
      EXPECT_EQ(at, count);
      EXPECT_LE(parts.size(), 3u);
      EXPECT_EQ(parts, parts_of(pool, count, grain));
    }
}

TEST(ThreadPool, parallel_for_shares_the_work_evenly) {
  ThreadPool pool(4);
  EXPECT_EQ(parts_of(pool, 64, 16), (Parts{{0, 16}, {16, 32}, {32, 48}, {48, 64}}));
}

TEST(ThreadPoolDeathTest, a_loop_inside_a_loop_is_a_bug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ThreadPool pool(1);
        pool.run([&](int) { pool.run([](int) {}); });
      },
      "one caller at a time");
}

}  // namespace
}  // namespace rose
