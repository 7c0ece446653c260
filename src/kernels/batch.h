// One step as ragged arrays: sequence s feeds tokens [first[s], first[s + 1]). Decoding feeds one
// token, a chunk of a prompt feeds many, and both may stand side by side. All arrays live on the device.
#pragma once
#include "cache/kv_cache.h"
#include "tensor/tensor.h"

namespace rose {

struct Batch {
  int tokens = 0;
  int seqs = 0;
  Tensor token_ids;      // [tokens]  i32, or -1 - i: newest[i]
  Tensor positions;      // [tokens]  i32, of each token in its sequence
  Tensor sequence;       // [tokens]  i32, which sequence each token belongs to
  Tensor first;          // [seqs + 1]  i32
  Tensor pages[kPools];  // [seqs, table width]  i32, page tables (cache/kv_cache.h)
  Tensor newest;         // [n]  i32, what the step before drew (kernels/embed/embed.h); or none
  Tensor sampled;        // [samples]  i32, the rows of the step whose logits are wanted, in order
};

}  // namespace rose
