// The tokens of a tokenizer: id to bytes, and bytes to id for those that text can become.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rose {

class Vocabulary {
 public:
  // Ids beyond this are refused: a table is made up to the highest one.
  static constexpr int kMaxId = (1 << 22) - 1;

  void reserve(size_t tokens, size_t bytes);

  // An ordinary token: find() knows it.
  Status add(int id, std::string_view bytes);
  // A token that text alone never becomes.
  Status add_hidden(int id, std::string_view bytes);

  // The bytes of a token; empty for an id that has none. The view lives as long as this is neither
  // changed nor moved.
  std::string_view bytes(int id) const {
    if (uint32_t(id) >= entries_.size()) return {};
    return std::string_view(arena_).substr(entries_[id].offset, entries_[id].size);
  }
  int find(std::string_view bytes) const;  // -1: no token

  int size() const { return int(entries_.size()); }  // one more than the highest id
  int tokens() const { return tokens_; }

 private:
  struct Entry {
    uint32_t offset = 0, size = 0;  // into the arena
  };
  struct Slot {
    uint32_t hash = 0;  // the upper half, so that most strangers are told apart at once
    int32_t id = -1;
  };
  void grow(size_t slots);
  void place(uint64_t hash, int id);

  std::string arena_;           // all tokens' bytes
  std::vector<Entry> entries_;  // by id
  std::vector<Slot> slots_;     // open addressing, a power of two, at most half full
  int tokens_ = 0;
  size_t found_ = 0;  // tokens in slots_
};

}  // namespace rose
