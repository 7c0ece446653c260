#include "text/name_trie.h"

namespace rose {

int NameTrie::step(int node, char byte) const {
  const size_t i = nodes_[node].bytes.find(byte);
  return i == std::string::npos ? -1 : nodes_[node].follow[i];
}

bool NameTrie::add(std::string_view name, int id) {
  int node = 0;
  for (const char byte : name) {
    int next = step(node, byte);
    if (next < 0) {
      next = int(nodes_.size());
      nodes_.emplace_back();
      nodes_[node].bytes += byte;
      nodes_[node].follow.push_back(next);
    }
    node = next;
  }
  if (nodes_[node].id >= 0) return false;
  nodes_[node].id = id;
  return true;
}

std::optional<NameTrie::Found> NameTrie::find(std::string_view text) const {
  for (size_t begin = 0;; ++begin) {
    begin = text.find_first_of(nodes_[0].bytes, begin);
    if (begin == text.npos) return {};
    std::optional<Found> longest;
    int node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      node = step(node, text[at]);
      if (node < 0) break;
      if (nodes_[node].id >= 0) longest = Found{begin, at + 1 - begin, nodes_[node].id};
    }
    if (longest) return longest;
  }
}

std::optional<int> NameTrie::id(std::string_view name) const {
  int node = 0;
  for (const char byte : name)
    if ((node = step(node, byte)) < 0) return {};
  if (nodes_[node].id < 0) return {};
  return nodes_[node].id;
}

}  // namespace rose
