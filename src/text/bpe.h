// Byte-pair encoding of one piece of text: it starts as single bytes, and of all neighbours that may
// merge the pair of the lowest rank does (leftmost among equals), until none is left.
//
// Vocabularies given as ranks and vocabularies given as a list of merges both become one table from
// a pair of ids to what they merge into.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocabulary.h"

namespace rose {

class MergeTable {
 public:
  struct Merge {
    int rank = kNone;  // lower merges first
    int token = -1;    // what the pair becomes
  };
  static constexpr int kNone = 0x7FFFFFFF;

  void reserve(size_t pairs);
  // False where the pair is known already.
  bool add(int left, int right, Merge merge);
  Merge find(int left, int right) const;
  size_t size() const { return pairs_; }

 private:
  struct Slot {
    int left = -1, right = -1;
    Merge merge;
  };
  size_t slot_of(int left, int right) const;
  void grow(size_t slots);

  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  int shift_ = 64;           // of the hash, to an index
  size_t pairs_ = 0;
};

// What a piece that is a token as a whole becomes.
enum class WholePiece {
  token,     // that token, whatever the merges say: ranks are defined so
  if_merged  // that token if the merges lead there
};

class Bpe {
 public:
  // Fails if one of the 256 bytes has no token: then some text could not be encoded.
  static Result<Bpe> make(const Vocabulary& vocabulary, MergeTable merges, WholePiece whole);

  // Appends the tokens of `piece`. The vocabulary must be the one given to make(). Time grows with
  // n log n however long the piece is. May be called from any thread.
  void encode(const Vocabulary& vocabulary, std::string_view piece, std::vector<int>& tokens) const;

 private:
  void merge_short(std::string_view piece, std::vector<int>& tokens) const;
  void merge_long(std::string_view piece, std::vector<int>& tokens) const;
  void merge(std::string_view piece, std::vector<int>& tokens) const;
  bool is_whole(int token, std::string_view piece) const;

  // Whether the merges lead from a token's bytes back to it is found out when first asked and kept;
  // threads that ask at the same time write the same answer.
  enum Whole : uint8_t { unknown, yes, no };

  MergeTable merges_;
  std::array<int, 256> byte_tokens_ = {};
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;  // [vocab] by token
};

}  // namespace rose
