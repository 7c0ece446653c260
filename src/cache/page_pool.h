// The pages of one pool, by number: who uses which is counted here, what is in them is not known here.
// A page is in exactly one of three states:
//
//   free    nobody's
//   held    by one or more sequences, whether the prefix cache also keeps it or not
//   cached  by the prefix cache alone: it may be had back at any time (cache/prefix.h)
//
//   free + held + cached == size, always
#pragma once
#include <vector>

#include "cache/kv_cache.h"

namespace rose {

class PagePool {
 public:
  explicit PagePool(int pages);

  int size() const { return int(pages_.size()); }
  int free() const { return int(free_.size()); }
  int held() const { return held_; }
  int cached() const { return size() - free() - held(); }
  int available() const { return size() - held(); }  // free, or cached and not in use

  int take();             // a free page, held once; kNoPage where none is free
  void hold(int page);    // by one more sequence; the page is not free
  void drop(int page);    // by one less; free if that was the last and the cache does not keep it
  void keep(int page);    // by the cache; the page is held and not kept yet
  void forget(int page);  // by the cache; free unless a sequence holds it

  int holders(int page) const { return at(page).holders; }
  bool kept(int page) const { return at(page).kept; }

 private:
  struct Page {
    int holders = 0;
    bool kept = false;
  };
  Page& at(int page);
  const Page& at(int page) const { return const_cast<PagePool*>(this)->at(page); }

  std::vector<Page> pages_;
  std::vector<int> free_;  // the last one goes out first: memory that was touched is used again
  int held_ = 0;
};

}  // namespace rose
