#include "text/bpe.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace rose {

void MergeTable::reserve(size_t pairs) { grow(std::bit_ceil(pairs * 2 + 2)); }

size_t MergeTable::slot_of(int left, int right) const {
  const uint64_t pair = uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  return (pair ^ pair >> 29) * 0x9E3779B97F4A7C15u >> shift_;  // 2^64 / golden ratio
}

bool MergeTable::add(int left, int right, Merge merge) {
  if (slots_.size() < 2 * (pairs_ + 1)) grow(std::max<size_t>(64, slots_.size() * 2));
  size_t i = slot_of(left, right);
  while (slots_[i].left >= 0) {
    if (slots_[i].left == left && slots_[i].right == right) return false;
    i = (i + 1) & (slots_.size() - 1);
  }
  slots_[i] = {left, right, merge};
  ++pairs_;
  return true;
}

MergeTable::Merge MergeTable::find(int left, int right) const {
  if (slots_.empty()) return {};
  for (size_t i = slot_of(left, right);; i = (i + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[i];
    if (slot.left == left && slot.right == right) return slot.merge;
    if (slot.left < 0) return {};
  }
}

void MergeTable::grow(size_t slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  shift_ = 64 - std::countr_zero(slots);
  pairs_ = 0;
  for (const Slot& slot : old)
    if (slot.left >= 0) add(slot.left, slot.right, slot.merge);
}

Result<Bpe> Bpe::make(const Vocabulary& vocabulary, MergeTable merges, WholePiece whole) {
  Bpe bpe;
  for (int byte = 0; byte < 256; ++byte) {
    const char text = char(byte);
    bpe.byte_tokens_[byte] = vocabulary.find({&text, 1});
    if (bpe.byte_tokens_[byte] < 0)
      return fail(ErrorKind::corrupt, strf("the vocabulary has no token for byte 0x%02x", byte));
  }
  bpe.merges_ = std::move(merges);
  bpe.whole_ = std::make_unique<std::atomic<uint8_t>[]>(size_t(vocabulary.size()));
  const Whole known = whole == WholePiece::token ? yes : unknown;
  for (int i = 0; i < vocabulary.size(); ++i) bpe.whole_[i].store(known, std::memory_order_relaxed);
  return bpe;
}

bool Bpe::is_whole(int token, std::string_view piece) const {
  uint8_t known = whole_[token].load(std::memory_order_relaxed);
  if (known == unknown) {
    std::vector<int> tokens;
    merge(piece, tokens);
    known = tokens.size() == 1 ? yes : no;
    whole_[token].store(known, std::memory_order_relaxed);
  }
  return known == yes;
}

void Bpe::encode(const Vocabulary& vocabulary, std::string_view piece,
                 std::vector<int>& tokens) const {
  const int token = vocabulary.find(piece);
  if (token >= 0 && is_whole(token, piece)) return tokens.push_back(token);
  merge(piece, tokens);
}

namespace {
// Up to here the lowest rank is found by looking at all: no memory is asked for, and a scan of so
// few is faster than a heap.
constexpr size_t kShortBytes = 64;
// Positions in the heap have 32 bits; a gigabyte without a split is cut rather than refused.
constexpr size_t kLongestBytes = size_t(1) << 30;
}  // namespace

void Bpe::merge(std::string_view piece, std::vector<int>& tokens) const {
  if (piece.size() <= kShortBytes) return merge_short(piece, tokens);
  for (; !piece.empty(); piece.remove_prefix(std::min(piece.size(), kLongestBytes)))
    merge_long(piece.substr(0, kLongestBytes), tokens);
}

void Bpe::merge_short(std::string_view piece, std::vector<int>& tokens) const {
  int part[kShortBytes];
  MergeTable::Merge next[kShortBytes];  // [i] of parts i and i + 1
  int parts = int(piece.size());
  for (int i = 0; i < parts; ++i) part[i] = byte_tokens_[uint8_t(piece[i])];
  for (int i = 0; i + 1 < parts; ++i) next[i] = merges_.find(part[i], part[i + 1]);

  while (parts > 1) {
    int best = 0;
    for (int i = 1; i + 1 < parts; ++i)
      if (next[i].rank < next[best].rank) best = i;
    if (next[best].rank == MergeTable::kNone) break;

    part[best] = next[best].token;
    std::copy(part + best + 2, part + parts, part + best + 1);
    std::copy(next + best + 1, next + parts - 1, next + best);
    --parts;
    if (best > 0) next[best - 1] = merges_.find(part[best - 1], part[best]);
    if (best + 1 < parts) next[best] = merges_.find(part[best], part[best + 1]);
  }
  tokens.insert(tokens.end(), part, part + parts);
}

// Parts in a doubly linked list, pairs in a heap. A pair that changed or vanished stays in the heap
// until it comes up, and is known by its rank not being that of its place any more.
void Bpe::merge_long(std::string_view piece, std::vector<int>& tokens) const {
  struct Part {
    int token;
    int32_t before, after;   // indices; -1: none
    MergeTable::Merge next;  // of this part and the one after
  };
  const int32_t bytes = int32_t(piece.size());
  std::vector<Part> parts(piece.size());
  for (int32_t i = 0; i < bytes; ++i)
    parts[i] = {byte_tokens_[uint8_t(piece[i])], i - 1, i + 1 < bytes ? i + 1 : -1, {}};

  // Rank above position: the lowest rank comes first, the leftmost among equals.
  std::vector<uint64_t> heap;
  const auto offer = [&](int32_t i) {
    Part& part = parts[i];
    part.next = {};
    if (part.after >= 0) part.next = merges_.find(part.token, parts[part.after].token);
    if (part.next.rank == MergeTable::kNone) return false;
    heap.push_back(uint64_t(part.next.rank) << 32 | uint32_t(i));
    return true;
  };
  for (int32_t i = 0; i < bytes; ++i) offer(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  while (!heap.empty()) {
    const uint64_t lowest = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const int32_t i = int32_t(uint32_t(lowest));
    if (parts[i].next.rank != int(lowest >> 32)) continue;

    Part& part = parts[i];
    Part& gone = parts[part.after];
    part.token = part.next.token;
    part.after = gone.after;
    if (gone.after >= 0) parts[gone.after].before = i;
    gone.next = {};
    if (offer(i)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
    if (part.before >= 0 && offer(part.before))
      std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  for (int32_t i = 0; i >= 0; i = parts[i].after) tokens.push_back(parts[i].token);
}

}  // namespace rose
