// The chosen experts of every token, each a gated MLP:
//
//   h    = round(x W1_e^T + b1_e)                  rows 2i: gate_i, rows 2i + 1: up_i
//   gate = min(gate, limit)                        from above only
//   up   = clamp(up, -limit, limit)
//   a    = round(gate * sigmoid(alpha * gate) * (up + 1))
//   y_e  = round(a W2_e^T + b2_e)
//
// Whoever reads y weighs and sums a token's rows (rms_norm.h).
#pragma once
#include "device/device.h"
#include "kernels/cost.h"
#include "kernels/weight.h"

namespace rose {

struct Experts {
  Tensor y;             // [tokens, top_k, hidden]  f32 or bf16
  Tensor x;             // [tokens, hidden]  like y
  Tensor experts;       // [tokens, top_k]  i32
  Weight gate_up;       // experts x [2 ffn, hidden], gate and up rows interleaved
  Tensor gate_up_bias;  // [experts, 2 ffn]  f32
  Weight down;          // experts x [hidden, ffn]
  Tensor down_bias;     // [experts, hidden]  f32
  float limit = 7.0f;
  float alpha = 1.702f;
};

struct ExpertsSizes {
  int tokens, top_k, slots, experts, hidden, ffn;  // slots: tokens x top_k
};
// That all operands agree on; else it stops.
ExpertsSizes sizes_of(const Experts& op);

}  // namespace rose
