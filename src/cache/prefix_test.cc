#include "cache/prefix.h"

#include <gtest/gtest.h>

#include <numeric>

namespace rose {
namespace {

constexpr int kWindow = 128;

// Tokens `from`, `from + 1`, … as many as `pages` pages and `more` hold.
std::vector<int> text(int from, int pages, int more = 0) {
  std::vector<int> tokens(size_t(pages * kPageSize + more));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

// Two pools, the cache over them, and what an engine does with them.
class Prefix : public ::testing::Test {
 protected:
  struct Pages {
    std::vector<int> tables[kPools];
    int tokens = 0;
  };

  // Computes `tokens` with pages of its own, and remembers them as a prompt that ends there.
  Pages compute(const std::vector<int>& tokens, std::string_view salt = "") {
    Pages pages;
    for (size_t i = 0; i < tokens.size(); i += kPageSize)
      for (const Pool pool : {Pool::full, Pool::sliding})
        pages.tables[int(pool)].push_back(take(pool));
    const int ends[] = {int(tokens.size())};
    cache.insert(salt, tokens, pages.tables, ends);
    cache.check();
    return pages;
  }
  Pages match(const std::vector<int>& tokens, std::string_view salt = "") {
    Pages pages;
    pages.tokens = cache.match(salt, tokens, pages.tables);
    cache.check();
    return pages;
  }
  void drop(const Pages& pages) {
    for (const Pool pool : {Pool::full, Pool::sliding})
      for (const int page : pages.tables[int(pool)])
        if (page != kNoPage) pools[int(pool)].drop(page);
  }
  int hit(const std::vector<int>& tokens, std::string_view salt = "") {
    const Pages pages = match(tokens, salt);
    drop(pages);
    return pages.tokens;
  }
  int take(Pool pool) {
    int page = pools[int(pool)].take();
    if (page == kNoPage && cache.evict(pool)) page = pools[int(pool)].take();
    EXPECT_NE(page, kNoPage);
    return page;
  }

  PagePool pools[kPools] = {PagePool(64), PagePool(64)};
  PrefixCache cache{pools[0], pools[1], kWindow};
};

TEST(PrefixMath, the_window_of_the_next_token) {
  EXPECT_EQ(first_seen_page(0, 128), 0);
  EXPECT_EQ(first_seen_page(128, 128), 0);  // sees 1..127
  EXPECT_EQ(first_seen_page(190, 128), 0);  // sees 63..189
  EXPECT_EQ(first_seen_page(191, 128), 1);  // sees 64..190
  EXPECT_EQ(first_seen_page(64, 1), 1);     // sees nothing before it
  EXPECT_EQ(window_pages(1), 1);
  EXPECT_EQ(window_pages(2), 2);
  EXPECT_EQ(window_pages(65), 2);
  EXPECT_EQ(window_pages(66), 3);
  EXPECT_EQ(window_pages(128), 3);
}

TEST_F(Prefix, a_longer_prompt_takes_up_where_a_shorter_one_ended) {
  const Pages first = compute(text(0, 5, 10));
  const Pages second = match(text(0, 9));
  EXPECT_EQ(second.tokens, 5 * kPageSize);
  EXPECT_EQ(second.tables[0], std::vector<int>(first.tables[0].begin(), first.tables[0].end() - 1));
  // The sliding table has the window's pages only: 3 and 4.
  EXPECT_EQ(second.tables[1],
            (std::vector<int>{kNoPage, kNoPage, kNoPage, first.tables[1][3], first.tables[1][4]}));
  EXPECT_EQ(pools[0].holders(first.tables[0][0]), 2);
  EXPECT_EQ(pools[1].holders(first.tables[1][4]), 2);
}

TEST_F(Prefix, a_hit_leaves_a_token_to_compute) {
  drop(compute(text(0, 4)));
  EXPECT_EQ(hit(text(0, 4, 1)), 4 * kPageSize);
  EXPECT_EQ(hit(text(0, 4)), 3 * kPageSize);
}

TEST_F(Prefix, pages_of_other_tokens_do_not_match) {
  drop(compute(text(0, 4)));
  std::vector<int> other = text(0, 6);
  other[150] = -1;
  EXPECT_EQ(hit(other), 0);  // two pages are equal, but no island is at their end
  EXPECT_EQ(hit(text(1, 6)), 0);
}

TEST_F(Prefix, a_salt_has_a_cache_of_its_own) {
  drop(compute(text(0, 4), "red"));
  EXPECT_EQ(hit(text(0, 6)), 0);
  EXPECT_EQ(hit(text(0, 6), "blue"), 0);
  EXPECT_EQ(hit(text(0, 6), "red"), 4 * kPageSize);
}

TEST_F(Prefix, a_hit_falls_back_to_the_island_before_it) {
  drop(compute(text(0, 4)));
  drop(compute(text(0, 20)));
  std::vector<int> leaves_at_10 = text(0, 20);
  leaves_at_10[10 * kPageSize] = -1;
  EXPECT_EQ(hit(leaves_at_10), 4 * kPageSize);
}

TEST_F(Prefix, every_2048_tokens_there_is_an_island) {
  drop(compute(text(0, 40)));
  std::vector<int> leaves_at_36 = text(0, 40);
  leaves_at_36[36 * kPageSize] = -1;
  EXPECT_EQ(hit(leaves_at_36), 2048);
}

TEST_F(Prefix, a_short_prompt_has_its_whole_window) {
  drop(compute(text(0, 1, 5)));
  EXPECT_EQ(hit(text(0, 3)), kPageSize);
}

TEST_F(Prefix, the_least_recently_used_full_pages_go_first) {
  drop(compute(text(0, 20)));
  drop(compute(text(10000, 20)));
  EXPECT_EQ(hit(text(0, 21)), 20 * kPageSize);  // now the first is the younger
  Pages pages;
  for (int i = 0; i < 64 - 40 + 20; ++i) pages.tables[0].push_back(take(Pool::full));
  cache.check();
  EXPECT_EQ(hit(text(10000, 21)), 0);
  EXPECT_EQ(hit(text(0, 21)), 20 * kPageSize);
  EXPECT_EQ(cache.nodes(), 20);
}

TEST_F(Prefix, leaves_go_before_their_parents) {
  drop(compute(text(0, 4)));
  drop(compute(text(0, 40)));
  for (int i = 0; i < 64 - 40 + 30; ++i) take(Pool::full);
  EXPECT_EQ(cache.nodes(), 10);
  EXPECT_EQ(hit(text(0, 40)), 4 * kPageSize);
}

TEST_F(Prefix, islands_are_evicted_by_themselves) {
  drop(compute(text(0, 20)));
  drop(compute(text(10000, 20)));
  EXPECT_EQ(pools[1].cached(), 6);
  for (int i = 0; i < 64 - 3; ++i) take(Pool::sliding);
  cache.check();
  EXPECT_EQ(cache.nodes(), 40);  // no full page is lost
  EXPECT_EQ(hit(text(0, 21)), 0);
  EXPECT_EQ(hit(text(10000, 21)), 20 * kPageSize);
}

TEST_F(Prefix, a_hit_makes_its_own_island_young) {
  drop(compute(text(0, 4)));
  drop(compute(text(0, 20)));
  drop(compute(text(10000, 20)));
  EXPECT_EQ(hit(text(0, 21)), 20 * kPageSize);
  EXPECT_EQ(pools[1].cached(), 9);
  for (int i = 0; i < 6; ++i) cache.evict(Pool::sliding);
  EXPECT_EQ(hit(text(0, 10)), 0);  // the island on its way there was not used
  EXPECT_EQ(hit(text(10000, 21)), 0);
  EXPECT_EQ(hit(text(0, 21)), 20 * kPageSize);
}

TEST_F(Prefix, a_lost_island_comes_back_with_the_next_who_computes_it) {
  drop(compute(text(0, 20)));
  while (cache.evict(Pool::sliding)) continue;
  EXPECT_EQ(hit(text(0, 21)), 0);
  drop(compute(text(0, 20)));
  EXPECT_EQ(hit(text(0, 21)), 20 * kPageSize);
  EXPECT_EQ(pools[0].cached(), 20);  // the copies of the full pages went back
  EXPECT_EQ(pools[0].free(), 44);
}

TEST_F(Prefix, what_is_in_use_stays) {
  const Pages held = compute(text(0, 30));
  drop(compute(text(10000, 20)));
  for (int i = 0; i < 34; ++i) take(Pool::full);
  EXPECT_FALSE(cache.evict(Pool::full));
  EXPECT_EQ(pools[0].held(), 64);
  EXPECT_EQ(hit(text(0, 31)), 30 * kPageSize);
}

TEST_F(Prefix, a_lost_page_takes_its_subtree_along) {
  drop(compute(text(0, 10)));
  // The same start computed again by someone who still holds what follows it.
  const Pages held = compute(text(0, 12));
  EXPECT_EQ(cache.nodes(), 12);
  while (cache.evict(Pool::full)) cache.check();
  EXPECT_EQ(cache.nodes(), 0);
  EXPECT_EQ(pools[0].held(), 12);
  EXPECT_EQ(pools[0].cached(), 0);
  EXPECT_EQ(pools[1].cached(), 0);
  drop(held);
  EXPECT_EQ(pools[0].free(), 64);
  EXPECT_EQ(pools[1].free(), 64);
}

}  // namespace
}  // namespace rose
