// y[i] = x[rows[i]]: the rows whose logits are wanted.
#pragma once
#include "device/device.h"
#include "tensor/tensor.h"

namespace rose {

struct Gather {
  Tensor y;     // [samples, hidden]  like x
  Tensor x;     // [tokens, hidden]  f32 or bf16
  Tensor rows;  // [samples]  i32
};

}  // namespace rose
