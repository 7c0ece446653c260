// RMSNorm, with what the layer before wants added to the residual stream.
#pragma once
#include "layers/pass.h"

namespace rose {

// A weighted sum that has not been taken yet.
struct Terms {
  Tensor rows;     // [tokens, terms, hidden]
  Tensor weights;  // [tokens, terms]  f32
};

struct Norm {
  Tensor gain;  // [hidden]  f32
  float eps = 1e-5f;

  // x <- x + the sum of `delta` (where there is one); returns the norm of it. Both [tokens, hidden].
  Tensor operator()(Pass& pass, Tensor x, const Terms& delta) const;
};

}  // namespace rose
