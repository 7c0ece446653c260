// A mixture of experts: a router picks top_k of them for each token, their outputs are summed by weight.
#pragma once
#include "layers/norm.h"

namespace rose {

struct Moe {
  Tensor router;        // [experts, hidden]  bf16
  Tensor router_bias;   // [experts]  f32
  Weight gate_up;       // experts x [2 ffn, hidden], gate and up rows interleaved
  Tensor gate_up_bias;  // [experts, 2 ffn]  f32
  Weight down;          // experts x [hidden, ffn]
  Tensor down_bias;     // [experts, hidden]  f32
  int top_k = 0;
  float limit = 7.0f;  // of gate and up (kernels/experts/experts.h)

  // Room for what comes out for so many tokens.
  Terms room(Pass& pass, int64_t tokens) const;

  // The experts' outputs for norm(x), and their weights. x [tokens, hidden]
  void operator()(Pass& pass, const Norm& norm, Tensor x, const Terms& out) const;
};

}  // namespace rose
