#include "text/vocabulary.h"

#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace rose {

namespace {
// Eight bytes a round, mixed by a 64 by 64 bit multiplication whose halves are folded. Users choose
// what is looked up but never what is stored, so no key is needed against floods.
uint64_t mix(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return uint64_t(product) ^ uint64_t(product >> 64);
}

uint64_t hash_of(std::string_view bytes) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
  uint64_t hash = bytes.size() * kOdd;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    hash = mix(hash ^ word, kOdd);
  }
  uint64_t word = 0;
  for (size_t i = 0; i < left; ++i) word |= uint64_t(uint8_t(at[i])) << (8 * i);
  return mix(hash ^ word ^ 0xD6E8FEB86659FD93u, kOdd);
}
}  // namespace

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  arena_.reserve(bytes);
  entries_.reserve(tokens);
  grow(std::bit_ceil(tokens * 2 + 2));
}

Status Vocabulary::add_hidden(int id, std::string_view bytes) {
  if (id < 0 || id > kMaxId)
    return fail(ErrorKind::corrupt, strf("token id %d is outside 0 to %d", id, kMaxId));
  if (bytes.empty()) return fail(ErrorKind::corrupt, strf("token %d is empty", id));
  if (arena_.size() + bytes.size() > std::numeric_limits<uint32_t>::max())
    return fail(ErrorKind::unsupported, "the tokens have more than 4 GiB of text");
  if (size_t(id) >= entries_.size()) entries_.resize(size_t(id) + 1);
  if (entries_[id].size > 0) return fail(ErrorKind::corrupt, strf("token id %d comes twice", id));

  entries_[id] = {uint32_t(arena_.size()), uint32_t(bytes.size())};
  arena_ += bytes;
  ++tokens_;
  return Done{};
}

Status Vocabulary::add(int id, std::string_view bytes) {
  if (const int other = find(bytes); other >= 0)
    return fail(ErrorKind::corrupt, strf("tokens %d and %d have the same text", other, id));
  TRY(add_hidden(id, bytes));
  if (slots_.size() < 2 * (found_ + 1)) grow(std::max<size_t>(64, slots_.size() * 2));
  place(hash_of(bytes), id);
  ++found_;
  return Done{};
}

int Vocabulary::find(std::string_view bytes) const {
  if (slots_.empty()) return -1;
  const uint64_t hash = hash_of(bytes);
  for (size_t i = hash;; ++i) {
    const Slot& slot = slots_[i & (slots_.size() - 1)];
    if (slot.id < 0) return -1;
    if (slot.hash == uint32_t(hash >> 32) && this->bytes(slot.id) == bytes) return slot.id;
  }
}

void Vocabulary::place(uint64_t hash, int id) {
  size_t i = hash & (slots_.size() - 1);
  while (slots_[i].id >= 0) i = (i + 1) & (slots_.size() - 1);
  slots_[i] = {uint32_t(hash >> 32), id};
}

void Vocabulary::grow(size_t slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  for (const Slot& slot : old)
    if (slot.id >= 0) place(hash_of(bytes(slot.id)), slot.id);
}

}  // namespace rose
