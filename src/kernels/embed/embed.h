// y[t] = table[token_ids[t]], widened to the type of y.
#pragma once
#include "device/device.h"
#include "tensor/tensor.h"

namespace rose {

struct Embed {
  Tensor y;          // [tokens, hidden]  f32 or bf16
  Tensor token_ids;  // [tokens]  i32, each in [0, vocab)
  Tensor table;      // [vocab, hidden]  bf16
};

}  // namespace rose
