// Which pages hold which prefix, so that a prompt that begins like an earlier one need not be computed
// again. A tree with one node for each full page of 64 tokens, below the node of the 64 before it; the
// first level also has the salt.
//
//   node       0         1         2         3         4     …
//   full      [#]       [#]       [#]       [#]       [#]        every node has its page
//   sliding    .         .        [#]       [#]        .         kept at islands only
//                                         ^ a hit may end here
//
// A hit of L tokens needs the full pages of all L and the sliding pages that the token at L still sees.
// Sliding pages are kept before ends of prompts and answers, where the next turn goes on, and before
// every multiple of 2,048 tokens; a hit that ends elsewhere falls back to the nearest island before it.
//
// The two pools are evicted apart, each least recently used first: losing a sliding page costs an
// island, losing a full page costs the whole subtree, which cannot be reached without it. Pages that
// sequences hold are never evicted.
#pragma once
#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cache/page_pool.h"

namespace rose {

// Pages that the tokens seen by position `at` (itself not counted) lie in: [first, at / 64).
inline int first_seen_page(int at, int window) {
  return at - window + 1 > 0 ? (at - window + 1) / kPageSize : 0;
}
// The most pages that a sequence which feeds one token a step holds in the sliding pool.
inline int window_pages(int window) { return (window + kPageSize - 2) / kPageSize + 1; }

class PrefixCache {
 public:
  static constexpr int kIslandTokens = 2048;

  // The pools must outlive it.
  PrefixCache(PagePool& full, PagePool& sliding, int window);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The longest usable prefix of `tokens` that leaves at least one of them to compute. Its pages are
  // held for the caller and put into its empty tables, kNoPage where the window has left. Returns the
  // number of tokens.
  int match(std::string_view salt, std::span<const int> tokens, std::vector<int> (&tables)[kPools]);

  // Remembers the complete pages of `tokens`, all computed, whose pages the caller holds. `ends`:
  // where a prompt or an answer ends, as counts of tokens.
  void insert(std::string_view salt, std::span<const int> tokens,
              const std::vector<int> (&tables)[kPools], std::span<const int> ends);

  // Makes at least one page of the pool free; false if none is cached.
  bool evict(Pool pool);

  int nodes() const { return int(nodes_.size()); }
  void check() const;  // every node against its neighbours and the pools

 private:
  using Tokens = std::array<int, kPageSize>;
  struct Node {
    Node* parent = nullptr;
    uint64_t key = 0;  // in parent->children
    std::string salt;  // of the first level; empty below
    Tokens tokens = {};
    int pages[kPools] = {kNoPage, kNoPage};
    std::unordered_map<uint64_t, Node*> children;
    std::list<Node>::iterator self;
    std::list<Node*>::iterator island;  // in islands_, where there is a sliding page
  };

  Node* find(Node& parent, std::string_view salt, const int* tokens) const;
  Node* add(Node& parent, std::string_view salt, const int* tokens);
  void touch(Node& node);
  void touch_path(Node* node, int first_island);
  void drop_sliding(Node& node);
  void drop_subtree(Node& node);

  PagePool* pools_[kPools];
  int window_;
  Node root_;
  std::list<Node> nodes_;     // least recently used first; children before parents
  std::list<Node*> islands_;  // those with a sliding page, likewise
};

}  // namespace rose
