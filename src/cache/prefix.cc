#include "cache/prefix.h"

#include <algorithm>
#include <functional>

#include "base/rng.h"

namespace rose {

namespace {

uint64_t key_of(std::string_view salt, const int* tokens) {
  uint64_t key = salt.empty() ? 0 : std::hash<std::string_view>{}(salt);
  for (int i = 0; i < kPageSize; ++i) key = scatter(key + uint64_t(uint32_t(tokens[i])) + 1);
  return key;
}

// Is page `page` among the last pages before an end? One more than the window needs, so that a prompt
// of whole pages that is asked again, and has to leave one token to compute, finds an island too.
bool before_end(int page, int end, int window) {
  const int last = end / kPageSize;
  return page < last && page >= first_seen_page((last - 1) * kPageSize, window);
}

}  // namespace

PrefixCache::PrefixCache(PagePool& full, PagePool& sliding, int window)
    : pools_{&full, &sliding}, window_(window) {}

// A node is what its tokens are, not what its key says: keys of different tokens may collide.
PrefixCache::Node* PrefixCache::find(Node& parent, std::string_view salt, const int* tokens) const {
  const auto child = parent.children.find(key_of(salt, tokens));
  if (child == parent.children.end()) return nullptr;
  Node& node = *child->second;
  const bool same = node.salt == salt && std::equal(node.tokens.begin(), node.tokens.end(), tokens);
  return same ? &node : nullptr;
}

PrefixCache::Node* PrefixCache::add(Node& parent, std::string_view salt, const int* tokens) {
  const uint64_t key = key_of(salt, tokens);
  if (parent.children.contains(key)) return nullptr;  // of other tokens: they were here first
  nodes_.emplace_back();
  Node& node = nodes_.back();
  node.parent = &parent;
  node.key = key;
  node.salt = salt;
  std::copy_n(tokens, kPageSize, node.tokens.begin());
  node.self = std::prev(nodes_.end());
  parent.children[key] = &node;
  return &node;
}

void PrefixCache::touch(Node& node) { nodes_.splice(nodes_.end(), nodes_, node.self); }

// The deepest first, so that a parent is always younger than its children and the oldest is a leaf.
// Islands count as used from page `first_island` on.
void PrefixCache::touch_path(Node* node, int first_island) {
  int page = 0;
  for (const Node* at = node; at != &root_; at = at->parent) ++page;
  for (; node != &root_; node = node->parent) {
    --page;
    touch(*node);
    if (page >= first_island && node->pages[int(Pool::sliding)] != kNoPage)
      islands_.splice(islands_.end(), islands_, node->island);
  }
}

int PrefixCache::match(std::string_view salt, std::span<const int> tokens,
                       std::vector<int> (&tables)[kPools]) {
  const int most = (int(tokens.size()) - 1) / kPageSize;  // leaves one token at least
  std::vector<Node*> path;
  for (Node* at = &root_; int(path.size()) < most;) {
    const size_t page = path.size();
    at = find(*at, page == 0 ? salt : std::string_view(), &tokens[page * kPageSize]);
    if (!at) break;
    path.push_back(at);
  }

  // From the deepest node back to one whose window is all there.
  int missing = -1;  // the last page of the path without a sliding page below `depth`
  int depth = int(path.size());
  for (; depth > 0; depth = missing) {
    const int first = first_seen_page(depth * kPageSize, window_);
    missing = depth - 1;
    while (missing >= first && path[size_t(missing)]->pages[int(Pool::sliding)] != kNoPage)
      --missing;
    if (missing < first) break;
  }
  if (depth == 0) return 0;

  const int first = first_seen_page(depth * kPageSize, window_);
  for (int page = 0; page < depth; ++page) {
    const Node& node = *path[size_t(page)];
    for (const Pool pool : {Pool::full, Pool::sliding}) {
      const bool seen = pool == Pool::full || page >= first;
      const int id = seen ? node.pages[int(pool)] : kNoPage;
      if (seen) pools_[int(pool)]->hold(id);
      tables[int(pool)].push_back(id);
    }
  }
  touch_path(path[size_t(depth - 1)], first);
  return depth * kPageSize;
}

void PrefixCache::insert(std::string_view salt, std::span<const int> tokens,
                         const std::vector<int> (&tables)[kPools], std::span<const int> ends) {
  Node* at = &root_;
  for (int page = 0; page < int(tokens.size()) / kPageSize; ++page) {
    const std::string_view level_salt = page == 0 ? salt : std::string_view();
    const int* page_tokens = &tokens[size_t(page) * kPageSize];
    Node* node = find(*at, level_salt, page_tokens);
    if (!node) {
      node = add(*at, level_salt, page_tokens);
      if (!node) break;
      node->pages[int(Pool::full)] = tables[int(Pool::full)][size_t(page)];
      pools_[int(Pool::full)]->keep(node->pages[int(Pool::full)]);
    }

    const int sliding = tables[int(Pool::sliding)][size_t(page)];
    const int block_end = (page * kPageSize / kIslandTokens + 1) * kIslandTokens;
    const bool wanted = before_end(page, block_end, window_) ||
                        std::any_of(ends.begin(), ends.end(),
                                    [&](int end) { return before_end(page, end, window_); });
    if (wanted && sliding != kNoPage && node->pages[int(Pool::sliding)] == kNoPage) {
      node->pages[int(Pool::sliding)] = sliding;
      node->island = islands_.insert(islands_.end(), node);
      pools_[int(Pool::sliding)]->keep(sliding);
    }
    at = node;
  }
  touch_path(at, int(tokens.size()) / kPageSize);
}

void PrefixCache::drop_sliding(Node& node) {
  islands_.erase(node.island);
  pools_[int(Pool::sliding)]->forget(node.pages[int(Pool::sliding)]);
  node.pages[int(Pool::sliding)] = kNoPage;
}

void PrefixCache::drop_subtree(Node& top) {
  top.parent->children.erase(top.key);
  std::vector<Node*> stack = {&top};
  while (!stack.empty()) {
    Node& node = *stack.back();
    stack.pop_back();
    for (const auto& [key, child] : node.children) stack.push_back(child);
    if (node.pages[int(Pool::sliding)] != kNoPage) drop_sliding(node);
    pools_[int(Pool::full)]->forget(node.pages[int(Pool::full)]);
    nodes_.erase(node.self);
  }
}

bool PrefixCache::evict(Pool pool) {
  PagePool& pages = *pools_[int(pool)];
  if (pages.cached() == 0) return false;
  // What a sequence holds is in use: back to the young end, and on to the next.
  if (pool == Pool::full) {
    while (pages.holders(nodes_.front().pages[int(pool)]) > 0) touch(nodes_.front());
    drop_subtree(nodes_.front());
  } else {
    while (pages.holders(islands_.front()->pages[int(pool)]) > 0)
      islands_.splice(islands_.end(), islands_, islands_.begin());
    drop_sliding(*islands_.front());
  }
  return true;
}

void PrefixCache::check() const {
  int kept[kPools] = {}, islands = 0;
  for (const Node& node : nodes_) {
    const auto child = node.parent->children.find(node.key);
    ROSE_CHECK(child != node.parent->children.end() && child->second == &node,
               "prefix cache: a node is not its parent's child");
    ROSE_CHECK(pools_[int(Pool::full)]->kept(node.pages[int(Pool::full)]),
               "prefix cache: full page %d is not kept", node.pages[int(Pool::full)]);
    if (const int sliding = node.pages[int(Pool::sliding)]; sliding != kNoPage) {
      ROSE_CHECK(pools_[int(Pool::sliding)]->kept(sliding),
                 "prefix cache: sliding page %d is not kept", sliding);
      ROSE_CHECK(*node.island == &node, "prefix cache: an island is not in its list");
      ++islands;
    }
  }
  ROSE_CHECK(islands == int(islands_.size()), "prefix cache: %d islands, %zu listed", islands,
             islands_.size());
  for (const Pool pool : {Pool::full, Pool::sliding})
    for (int page = 0; page < pools_[int(pool)]->size(); ++page)
      kept[int(pool)] += pools_[int(pool)]->kept(page);
  ROSE_CHECK(kept[int(Pool::full)] == nodes() && kept[int(Pool::sliding)] == islands,
             "prefix cache: %d full and %d sliding pages are kept for %d nodes and %d islands",
             kept[int(Pool::full)], kept[int(Pool::sliding)], nodes(), islands);
}

}  // namespace rose
