#include "testing/paging.h"

#include <algorithm>
#include <numeric>

#include "base/rng.h"

namespace rose::testing {

namespace {

std::vector<float> floats(const std::vector<int>& values) { return {values.begin(), values.end()}; }

int seqs_of(const std::vector<Slice>& slices) {
  int seqs = 0;
  for (const Slice& slice : slices) seqs = std::max(seqs, slice.seq + 1);
  return seqs;
}

}  // namespace

int longest_of(const std::vector<Slice>& slices) {
  int longest = 0;
  for (const Slice& slice : slices) longest = std::max(longest, slice.first + slice.count);
  return longest;
}

Paging::Paging(int seqs, int tokens, int window, uint64_t key)
    : width_((tokens + kPageSize - 1) / kPageSize), window_(window) {
  for (std::vector<int>& table : tables_) {
    table.resize(size_t(seqs * width_));
    std::iota(table.begin(), table.end(), 1);  // page 0 stays unused
    for (size_t i = table.size(); i > 1; --i)
      std::swap(table[i - 1], table[random_bits(key, i) % i]);
    ++key;
  }
}

Paging::Paging(const std::vector<Slice>& slices, int window, uint64_t key)
    : Paging(seqs_of(slices), longest_of(slices), window, key) {}

Batch Paging::step(Rig& rig, const std::vector<Slice>& slices,
                   const std::vector<std::vector<int>>& ids,
                   const std::vector<int>& sampled) const {
  std::vector<int> token_ids, positions, sequence, first = {0}, tables[kPools];
  for (size_t s = 0; s < slices.size(); ++s) {
    const Slice& slice = slices[s];
    for (int i = slice.first; i < slice.first + slice.count; ++i) {
      token_ids.push_back(ids.empty() ? 0 : ids[size_t(slice.seq)][size_t(i)]);
      positions.push_back(i);
      sequence.push_back(int(s));
    }
    first.push_back(int(positions.size()));
    for (const Pool pool : {Pool::full, Pool::sliding})
      for (int page = 0; page < width_; ++page) {
        // No entry where nothing may be read: past the slice's end, and behind its first window.
        const bool ahead = page * kPageSize >= slice.first + slice.count;
        const bool behind =
            pool == Pool::sliding && (page + 1) * kPageSize <= slice.first - window_ + 1;
        tables[int(pool)].push_back(
            ahead || behind ? kNoPage : tables_[int(pool)][size_t(slice.seq * width_ + page)]);
      }
  }
  std::vector<int> rows = sampled;
  if (rows.empty())
    for (size_t i = 0; i < positions.size(); ++i) rows.push_back(int(i));

  const int64_t tokens = int64_t(positions.size()), seqs = int64_t(slices.size());
  Batch batch;
  batch.tokens = int(tokens);
  batch.seqs = int(seqs);
  batch.token_ids = rig.put(DType::i32, {tokens}, floats(token_ids));
  batch.positions = rig.put(DType::i32, {tokens}, floats(positions));
  batch.sequence = rig.put(DType::i32, {tokens}, floats(sequence));
  batch.first = rig.put(DType::i32, {seqs + 1}, floats(first));
  for (int pool = 0; pool < kPools; ++pool)
    batch.pages[pool] = rig.put(DType::i32, {seqs, width_}, floats(tables[pool]));
  batch.sampled = rig.put(DType::i32, {int64_t(rows.size())}, floats(rows));
  return batch;
}

}  // namespace rose::testing
