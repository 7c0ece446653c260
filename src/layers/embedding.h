// The first step: a row of the table for each token.
#pragma once
#include "layers/pass.h"

namespace rose {

struct Embedding {
  Tensor table;  // [vocab, hidden]  bf16

  Tensor operator()(Pass& pass) const;  // [tokens, hidden]
};

}  // namespace rose
