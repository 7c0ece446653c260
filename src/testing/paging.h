// Steps over a paged cache: page tables of several sequences, scattered over the pools, and batches that
// feed any slice of any of them.
#pragma once
#include <vector>

#include "kernels/batch.h"
#include "testing/rig.h"

namespace rose::testing {

// Sequence `seq` feeds its tokens [first, first + count).
struct Slice {
  int seq;
  int first;
  int count;
};

int longest_of(const std::vector<Slice>& slices);  // tokens of a sequence after them

class Paging {
 public:
  // Sequences of up to `tokens` each; `key` shuffles the pages.
  Paging(int seqs, int tokens, int window, uint64_t key);
  // As many and as long as one step of these needs.
  Paging(const std::vector<Slice>& slices, int window, uint64_t key);

  int pages() const { return int(tables_[0].size()) + 1; }  // of each pool; one is never used

  // `ids`: the tokens of each sequence (none: zeros). `sampled`: rows of the step (none: all).
  Batch step(Rig& rig, const std::vector<Slice>& slices,
             const std::vector<std::vector<int>>& ids = {},
             const std::vector<int>& sampled = {}) const;

 private:
  int width_;  // pages of a sequence
  int window_;
  std::vector<int> tables_[kPools];  // [seqs, width]
};

}  // namespace rose::testing
