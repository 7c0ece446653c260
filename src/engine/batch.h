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
  int width = 0;                       // pages of the longest sequence
};

HostBatch make_batch(const Step& step);

// The same on the stream's device, in its scratch memory.
Batch upload(Stream& stream, const HostBatch& host);

// Another step of the same sizes, into the memory of one that was uploaded before.
void upload(Stream& stream, const HostBatch& host, const Batch& to);

}  // namespace rose
