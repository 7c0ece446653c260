#include "cache/page_pool.h"

#include <numeric>

namespace rose {

PagePool::PagePool(int pages) : pages_(size_t(pages)), free_(size_t(pages)) {
  std::iota(free_.rbegin(), free_.rend(), 0);
}

PagePool::Page& PagePool::at(int page) {
  ROSE_CHECK(page >= 0 && page < size(), "page pool: page %d of %d", page, size());
  return pages_[size_t(page)];
}

int PagePool::take() {
  if (free_.empty()) return kNoPage;
  const int page = free_.back();
  free_.pop_back();
  pages_[size_t(page)].holders = 1;
  ++held_;
  return page;
}

void PagePool::hold(int page) {
  Page& state = at(page);
  ROSE_CHECK(state.holders > 0 || state.kept, "page pool: page %d is free and cannot be shared",
             page);
  if (state.holders++ == 0) ++held_;
}

void PagePool::drop(int page) {
  Page& state = at(page);
  ROSE_CHECK(state.holders > 0, "page pool: page %d is dropped, but nobody holds it", page);
  if (--state.holders > 0) return;
  --held_;
  if (!state.kept) free_.push_back(page);
}

void PagePool::keep(int page) {
  Page& state = at(page);
  ROSE_CHECK(state.holders > 0 && !state.kept, "page pool: page %d cannot be kept (%d holders)",
             page, state.holders);
  state.kept = true;
}

void PagePool::forget(int page) {
  Page& state = at(page);
  ROSE_CHECK(state.kept, "page pool: page %d is forgotten, but not kept", page);
  state.kept = false;
  if (state.holders == 0) free_.push_back(page);
}

}  // namespace rose
