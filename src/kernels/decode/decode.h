// All layers of a model of the gpt-oss kind for a step of one token, in one launch: what the ops of attention,
// rms_norm, matmul, route and experts do one after the other (their headers are the contract, roundings included).
// With one token those ops are short, and starting and ending them takes longer than reading their weights does.
#pragma once
#include <span>

#include "kernels/attend/attend.h"
#include "kernels/weight.h"

namespace rose {

struct DecodeLayer {
  Tensor attention_gain;  // [hidden]  f32
  Weight qkv;             // [(heads + 2 kv_heads) head_dim, hidden]
  Tensor qkv_bias;        // [its rows]  f32
  Tensor sinks;           // [heads]  f32
  Weight out;             // [hidden, heads head_dim]
  Tensor out_bias;        // [hidden]  f32
  KvLayer kv;
  int window = kEveryKey;

  Tensor moe_gain;      // [hidden]  f32
  Tensor router;        // [experts, hidden]  bf16
  Tensor router_bias;   // [experts]  f32
  Weight gate_up;       // experts x [2 ffn, hidden], gate and up rows interleaved
  Tensor gate_up_bias;  // [experts, 2 ffn]  f32
  Weight down;          // experts x [hidden, ffn]
  Tensor down_bias;     // [experts, hidden]  f32
};

struct Decode {
  Tensor x;  // [1, hidden]  the embedding; then the residual stream, less what the last experts add
  Tensor expert_rows;     // [1, top_k, hidden]  of the last layer, like x
  Tensor expert_weights;  // [1, top_k]  f32, likewise
  std::span<const DecodeLayer> layers;
  const Batch* batch;
  int heads = 0;
  int head_dim = 0;
  float scale = 1;  // of scores
  Rope rope = {};
  float eps = 1e-5f;
  float limit = 7.0f;
  float alpha = 1.702f;
};

struct DecodeSizes {
  int hidden, experts, top_k, ffn, kv_heads;
};
// That all operands of all layers agree on; else it stops.
DecodeSizes sizes_of(const Decode& op);

}  // namespace rose
