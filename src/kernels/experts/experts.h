// The chosen experts of every token, each a gated MLP, summed by their weights:
//
//   h    = round(x W1_e^T + b1_e)                  rows 2i: gate_i, rows 2i + 1: up_i
//   gate = min(gate, limit)                        from above only
//   up   = clamp(up, -limit, limit)
//   a    = round(gate * sigmoid(alpha * gate) * (up + 1))
//   y    = round(sum over e of w_e * round(a W2_e^T + b2_e))
//
// The bias of the second matrix is inside the expert, so its weight multiplies it too. Sums are f32
// and in the order of the token's list of experts, so a token's result does not depend on its
// neighbours in the batch.
#pragma once
#include "device/device.h"
#include "kernels/cost.h"
#include "kernels/weight.h"

namespace rose {

struct Experts {
  Tensor y;             // [tokens, hidden]  f32 or bf16
  Tensor x;             // [tokens, hidden]  like y
  Tensor experts;       // [tokens, top_k]  i32
  Tensor weights;       // [tokens, top_k]  f32
  Weight gate_up;       // experts x [2 ffn, hidden], gate and up rows interleaved
  Tensor gate_up_bias;  // [experts, 2 ffn]  f32
  Weight down;          // experts x [hidden, ffn]
  Tensor down_bias;     // [experts, hidden]  f32
  float limit = 7.0f;
  float alpha = 1.702f;
};

}  // namespace rose
