// RMSNorm, with what the layer before wants added to the residual stream.
#pragma once
#include "layers/pass.h"

namespace rose {

struct Norm {
  Tensor gain;  // [hidden]  f32
  float eps = 1e-5f;

  // x <- x + delta (where there is one); returns the norm of it. Both [tokens, hidden].
  Tensor operator()(Pass& pass, Tensor x, Tensor delta) const;
};

}  // namespace rose
