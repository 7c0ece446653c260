// Which experts a token goes to, and with what weight.
//
//   logit  = round_bf16(x W^T + bias)      (f32 activations: not rounded)
//   experts = the top_k largest logits, the lower index first where equal
//   weights = round(softmax over those top_k alone)
#pragma once
#include "device/device.h"
#include "tensor/tensor.h"

namespace rose {

struct Route {
  Tensor experts;  // [tokens, top_k]  i32, largest logit first
  Tensor weights;  // [tokens, top_k]  f32 (rounded to the type of x)
  Tensor x;        // [tokens, hidden]  f32 or bf16
  Tensor weight;   // [experts, hidden]  bf16
  Tensor bias;     // [experts]  f32
};

}  // namespace rose
