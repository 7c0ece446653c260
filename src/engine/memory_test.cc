#include "engine/memory.h"

#include <gtest/gtest.h>

#include "cache/prefix.h"

namespace rose {
namespace {

// Two full and two sliding layers, 8 kv heads of 64, bf16: 256 KiB a page in either pool.
KvSpec spec() {
  return {.layers = {{Pool::sliding}, {Pool::full}, {Pool::sliding}, {Pool::full}},
          .kv_heads = 8,
          .head_dim = 64,
          .window = 128};
}
constexpr int64_t kPage = 256 << 10;
constexpr int64_t kGiB = int64_t(1) << 30;

TEST(KvMemory, what_may_run_at_once_is_enough) {
  const KvMemory memory = *plan_kv(
      spec(), {.max_context = 1000, .max_seqs = 4, .max_tokens_per_step = 256}, 131072, 64 * kGiB);
  EXPECT_EQ(memory.pages[int(Pool::full)], 4 * 16);
  EXPECT_EQ(memory.pages[int(Pool::sliding)], 4 * 3 + 256 / 64 + 1 + 64 / 8);
  EXPECT_EQ(memory.max_context, 1000);
  EXPECT_EQ(memory.bytes, (memory.pages[0] + memory.pages[1]) * kPage);
}

TEST(KvMemory, unasked_it_takes_half_of_what_is_free) {
  const KvMemory memory = *plan_kv(spec(), {}, 131072, 8 * kGiB);
  EXPECT_LE(memory.bytes, 4 * kGiB);
  EXPECT_GT(memory.bytes, 4 * kGiB - 2 * kPage);
  EXPECT_EQ(memory.max_context, 131072);
  EXPECT_GT(memory.pages[int(Pool::sliding)], 256 * 3 + 32);
}

TEST(KvMemory, asked_it_takes_all_of_it) {
  const KvMemory memory =
      *plan_kv(spec(), {.max_context = 1000, .max_seqs = 1, .kv_bytes = kGiB}, 131072, 0);
  EXPECT_LE(memory.bytes, kGiB);
  EXPECT_GT(memory.bytes, kGiB - 2 * kPage);
}

TEST(KvMemory, a_context_nobody_asked_for_shrinks_to_what_there_is) {
  const KvMemory memory = *plan_kv(spec(), {.kv_bytes = 100 * kPage}, 131072, 0);
  EXPECT_EQ(memory.max_context, memory.pages[int(Pool::full)] * kPageSize);
  EXPECT_GT(memory.max_context, 40 * kPageSize);
  EXPECT_LT(memory.max_context, 100 * kPageSize);
}

TEST(KvMemory, a_context_that_was_asked_for_fits_or_is_refused) {
  for (int pages = 1; pages < 60; ++pages) {
    const EngineOptions options = {.max_context = 1000, .kv_bytes = pages * kPage};
    const auto memory = plan_kv(spec(), options, 131072, 0);
    if (memory) {
      EXPECT_GE(memory->pages[int(Pool::full)], 16);
      EXPECT_GE(memory->pages[int(Pool::sliding)], window_pages(128));
      EXPECT_LE(memory->bytes, options.kv_bytes);
    } else {
      EXPECT_LT(pages, 40);
      EXPECT_NE(memory.error().message.find("a context of 1000 tokens needs"), std::string::npos);
    }
  }
}

TEST(KvMemory, one_kind_of_layer_is_enough) {
  KvSpec full_only = spec(), sliding_only = spec();
  full_only.layers = {{Pool::full}};
  sliding_only.layers = {{Pool::sliding}};
  for (const KvSpec& one : {full_only, sliding_only}) {
    const auto memory = plan_kv(one, {.max_context = 1000, .max_seqs = 4}, 131072, kGiB);
    ASSERT_TRUE(memory) << memory.error().message;
    EXPECT_GE(memory->pages[int(Pool::full)], 16);
    EXPECT_GE(memory->pages[int(Pool::sliding)], 3);
  }
}

}  // namespace
}  // namespace rose
