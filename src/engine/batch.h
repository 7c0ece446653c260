// A step as ragged arrays (kernels/batch.h): made on the host, then uploaded in one go.
#pragma once
#include "engine/scheduler.h"
#include "kernels/batch.h"

namespace rose {

struct HostBatch {
  std::vector<int32_t> token_ids;      // [tokens]
  std::vector<int32_t> positions;      // [tokens]
  std::vector<int32_t> sequence;       // [tokens]
  std::vector<int32_t> first;          // [seqs + 1]
  std::vector<int32_t> pages[kPools];  // [seqs, width]
  std::vector<int32_t> sampled;        // [samples]
  std::vector<SampleRow> rows;         // [samples]  how each of them is drawn
  int width = 0;                       // pages of the longest sequence

  int tokens() const { return int(token_ids.size()); }
  int seqs() const { return int(first.size()) - 1; }
  int samples() const { return int(sampled.size()); }
};

HostBatch make_batch(const Step& step);

// Every sequence feeds as many tokens, and samples after the last of them or after each: decoding, and
// verification of drafts. `count` is 0 where the batch is of another shape.
struct Uniform {
  int seqs = 0;
  int count = 0;
  bool each = false;
};
Uniform uniform(const HostBatch& batch);

// Filled up to `seqs` sequences and page tables of `width`; uniform batches only. The last sequence
// stands in for those that are missing: the same tokens at the same places cost no expert that is not
// read anyway, and write to the cache what is written there anyway. Their rows are not sampled.
HostBatch padded(const HostBatch& batch, int seqs, int width);

// The same in a device's memory.
struct PlacedBatch {
  Batch batch;
  const SampleRow* rows = nullptr;
};

// Where the arrays of such a batch are in a piece of memory of `bytes_of` it, and the bytes that belong
// there.
int64_t bytes_of(const HostBatch& host);
PlacedBatch place(const HostBatch& host, void* memory);
void write(const HostBatch& host, uint8_t* bytes);

// A step that is not sampled, in the stream's scratch memory.
Batch upload(Stream& stream, const HostBatch& host);

}  // namespace rose
