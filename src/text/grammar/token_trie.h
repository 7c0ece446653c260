// The ordinary tokens of a vocabulary as a tree of their bytes, laid out so that one pass from front
// to back visits them with shared beginnings looked at once. Made once for each tokenizer, immutable.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace rose::grammar {

class TokenTrie {
 public:
  // A byte after those of its parent; the root, of no bytes, is left out. In the order of a walk
  // down: the nodes below node i are those from i + 1 to its `end`.
  struct Node {
    uint32_t end;
    int32_t token;  // that ends here, or -1. Of tokens with equal bytes, the lowest
    uint8_t byte;
    uint8_t depth;  // bytes so far, this one included
  };

  // Tokens longer than kLongest bytes are left out: nothing constrained may use them.
  static constexpr int kLongest = 255;

  explicit TokenTrie(const Tokenizer& tokenizer);

  const std::vector<Node>& nodes() const { return nodes_; }
  int vocab() const { return tokenizer_->vocab(); }
  size_t words() const { return (size_t(vocab()) + 31) / 32; }  // of a mask
  int longest() const { return longest_; }

  // Empty for special tokens and those that do not exist.
  std::string_view bytes(int token) const {
    return tokenizer_->is_special(token) ? std::string_view() : tokenizer_->bytes(token);
  }

 private:
  const Tokenizer* tokenizer_;  // outlives this
  std::vector<Node> nodes_;
  int longest_ = 0;
};

}  // namespace rose::grammar
