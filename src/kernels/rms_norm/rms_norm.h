// RMSNorm over the last dimension, with the residual add folded in:
//
//   x <- round(x + round(sum_i weights_i add_i))          where `add` is given, in the order of i
//   y  = round(x * gain / sqrt(mean(x^2) + eps))
//
// `round` is to the type of the activations (f32: nothing). The norm is of the rounded sum: what is
// kept and what is normalised are the same numbers. Rounded once, after the gain.
#pragma once
#include "device/device.h"
#include "kernels/cost.h"
#include "tensor/tensor.h"

namespace rose {

struct RmsNorm {
  Tensor y;             // [tokens, hidden]  f32 or bf16
  Tensor x;             // [tokens, hidden]  like y, updated in place
  Tensor add = {};      // [tokens, terms, hidden]  like y, or none
  Tensor weights = {};  // [tokens, terms]  f32, of `add`
  Tensor gain;          // [hidden]  f32
  float eps = 1e-5f;
};

inline Cost cost(const RmsNorm& op) {
  const int64_t passes = op.add ? 3 : 2;  // read x, write x and y | read x, write y
  return {.bytes = passes * op.x.bytes() + op.add.bytes() + op.gain.bytes(),
          .flops = 5 * op.x.elements() + 2 * op.add.elements()};
}

}  // namespace rose
