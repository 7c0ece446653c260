#include "text/grammar/token_trie.h"

#include <algorithm>

namespace rose::grammar {

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {
  struct Entry {
    std::string_view bytes;
    int token;
  };
  std::vector<Entry> entries;
  for (int token = 0; token < vocab(); ++token) {
    const std::string_view text = bytes(token);
    if (text.empty() || text.size() > kLongest) continue;
    entries.push_back({text, token});
    longest_ = std::max(longest_, int(text.size()));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.token < b.token;
  });

  std::vector<size_t> open;  // nodes on the way to the last entry
  const auto close = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back()) nodes_[open.back()].end = uint32_t(nodes_.size());
  };
  std::string_view last;
  for (const Entry& entry : entries) {
    const auto parts =
        std::mismatch(last.begin(), last.end(), entry.bytes.begin(), entry.bytes.end());
    const size_t common = size_t(parts.first - last.begin());
    if (common == entry.bytes.size()) continue;  // the same bytes again
    close(common);
    for (size_t depth = common; depth < entry.bytes.size(); ++depth) {
      open.push_back(nodes_.size());
      nodes_.push_back({.end = 0,
                        .token = -1,
                        .byte = uint8_t(entry.bytes[depth]),
                        .depth = uint8_t(depth + 1)});
    }
    nodes_.back().token = entry.token;
    last = entry.bytes;
  }
  close(0);
}

}  // namespace rose::grammar
