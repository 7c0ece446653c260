// Which experts a token goes to, and with what weight; where `gain` is given, of its norm (rms_norm.h).
//
//   x       = normed = round(x * gain / sqrt(mean(x^2) + eps))        where `gain` is given
//   logit  = round_bf16(x W^T + bias)      (f32 activations: not rounded)
//   experts = the top_k largest logits, the lower index first where equal
//   weights = round(softmax over those top_k alone)
#pragma once
#include "device/device.h"
#include "kernels/rms_norm/rms_norm.h"
#include "tensor/tensor.h"

namespace rose {

struct Route {
  Tensor experts;      // [tokens, top_k]  i32, largest logit first
  Tensor weights;      // [tokens, top_k]  f32 (rounded to the type of x)
  Tensor x;            // [tokens, hidden]  f32 or bf16
  Tensor weight;       // [experts, hidden]  bf16
  Tensor bias;         // [experts]  f32
  Tensor gain = {};    // [hidden]  f32, or none
  float eps = 1e-5f;   // with `gain`
  Tensor normed = {};  // [tokens, hidden]  like x, written, with `gain`
};

// The norm by itself, for a backend that does not compute both at once.
inline RmsNorm norm_of(const Route& op) {
  return {.y = op.normed, .x = op.x, .gain = op.gain, .eps = op.eps};
}
inline Route routing_of(Route op) {
  op.x = op.normed;
  op.gain = op.normed = {};
  return op;
}

}  // namespace rose
