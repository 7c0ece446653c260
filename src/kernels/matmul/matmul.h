// y = round(x W^T + bias), or with `add` y <- round(y + round(x W^T + bias)). The sum is kept in f32 (the
// reference: f64) and rounded once, bias included.
// Formats that meet int8 activations (q8, mxfp4_q8) quantise x by 32 first, as pack.h says for weights:
// then the products of a block are summed exactly in integers.
#pragma once
#include "device/device.h"
#include "kernels/cost.h"
#include "kernels/weight.h"

namespace rose {

struct Matmul {
  Tensor y;          // [tokens, rows]  f32 or bf16
  Tensor x;          // [tokens, columns]  f32 or bf16
  Weight weight;     // [rows, columns], one matrix
  Tensor bias = {};  // [rows]  f32, or none
  bool add = false;
};

}  // namespace rose
