// y[t] = table[token_ids[t]], widened to the type of y. A negative id -1 - i stands for newest[i]: what
// the step before drew, known to the device alone; where that was nothing (-1), token 0 is fed and whoever
// asked for it drops the result.
#pragma once
#include "device/device.h"
#include "tensor/tensor.h"

namespace rose {

struct Embed {
  Tensor y;          // [tokens, hidden]  f32 or bf16
  Tensor token_ids;  // [tokens]  i32, each in [0, vocab), or -1 - i
  Tensor newest;     // [n]  i32, each in [0, vocab) or -1; or none
  Tensor table;      // [vocab, hidden]  bf16
};

}  // namespace rose
