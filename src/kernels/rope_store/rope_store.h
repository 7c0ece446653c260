// Rotates queries and keys to their positions and puts keys and values into the cache's pages.
//
//   pairs (k, k + head_dim / 2):  o[k]       = x[k] cos_k - x[k + half] sin_k
//                                 o[k + half] = x[k + half] cos_k + x[k] sin_k
//   cos_k = round(cos(position * inverse_frequency[k]) * concentration), sin_k likewise
//
// The angle is a product of f32 numbers, as in the published reference; `round` is to the type of
// the activations. Queries are rotated in place; keys are rotated and stored, values are stored.
#pragma once
#include "device/device.h"
#include "kernels/batch.h"

namespace rose {

struct Rope {
  Tensor inverse_frequency;  // [head_dim / 2]  f32
  float concentration = 1;   // multiplies cos and sin, for queries and keys both
};

struct RopeStore {
  Tensor qkv;  // [tokens, (heads + 2 kv_heads) head_dim]  f32 or bf16; queries first
  KvLayer kv;  // written
  const Batch* batch;
  Rope rope;
  int heads = 0;
  int head_dim = 0;
};

}  // namespace rose
