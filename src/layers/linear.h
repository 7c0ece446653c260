// y = x W^T + bias.
#pragma once
#include "layers/pass.h"

namespace rose {

struct Linear {
  Weight weight;  // [out, in]
  Tensor bias;    // [out]  f32, or none

  Tensor operator()(Pass& pass, Tensor x) const;               // in the type of the activations
  Tensor operator()(Pass& pass, Tensor x, DType dtype) const;  // [tokens, out]
  void add(Pass& pass, Tensor x, Tensor y) const;              // y <- y + (x W^T + bias)
};

}  // namespace rose
