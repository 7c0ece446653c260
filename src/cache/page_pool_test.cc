#include "cache/page_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace rose {
namespace {

void expect_counts(const PagePool& pool, int free, int held, int cached) {
  EXPECT_EQ(pool.free(), free);
  EXPECT_EQ(pool.held(), held);
  EXPECT_EQ(pool.cached(), cached);
  EXPECT_EQ(pool.free() + pool.held() + pool.cached(), pool.size());
}

TEST(PagePool, every_page_goes_out_once) {
  PagePool pool(3);
  const std::set<int> pages = {pool.take(), pool.take(), pool.take()};
  EXPECT_EQ(pages, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(pool.take(), kNoPage);
  expect_counts(pool, 0, 3, 0);
}

TEST(PagePool, a_shared_page_is_free_when_the_last_lets_go) {
  PagePool pool(2);
  const int page = pool.take();
  pool.hold(page);
  pool.drop(page);
  expect_counts(pool, 1, 1, 0);
  pool.drop(page);
  expect_counts(pool, 2, 0, 0);
}

TEST(PagePool, a_kept_page_is_cached_when_nobody_holds_it) {
  PagePool pool(2);
  const int page = pool.take();
  pool.keep(page);
  expect_counts(pool, 1, 1, 0);
  pool.drop(page);
  expect_counts(pool, 1, 0, 1);
  EXPECT_EQ(pool.available(), 2);
  pool.hold(page);  // a hit
  expect_counts(pool, 1, 1, 0);
  pool.forget(page);  // in use: it stays with its holder
  expect_counts(pool, 1, 1, 0);
  pool.drop(page);
  expect_counts(pool, 2, 0, 0);
}

TEST(PagePool, a_forgotten_page_is_free) {
  PagePool pool(1);
  const int page = pool.take();
  pool.keep(page);
  pool.drop(page);
  pool.forget(page);
  expect_counts(pool, 1, 0, 0);
  EXPECT_EQ(pool.take(), page);
}

TEST(PagePoolDeath, wrong_accounts_stop_the_program) {
  PagePool pool(2);
  const int page = pool.take();
  EXPECT_DEATH(pool.drop(1 - page), "nobody holds it");
  EXPECT_DEATH(pool.hold(1 - page), "is free");
  EXPECT_DEATH(pool.forget(page), "not kept");
  EXPECT_DEATH(pool.drop(7), "page 7 of 2");
}

}  // namespace
}  // namespace rose
