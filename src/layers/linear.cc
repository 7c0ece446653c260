#include "layers/linear.h"

#include "kernels/matmul/matmul.h"

namespace rose {

Tensor Linear::operator()(Pass& pass, Tensor x) const { return (*this)(pass, x, pass.activations); }

Tensor Linear::operator()(Pass& pass, Tensor x, DType dtype) const {
  Tensor y = pass.stream.scratch->take(dtype, {x.dims[0], weight.rows});
  pass.ops.matmul(pass.stream, {.y = y, .x = x, .weight = weight, .bias = bias});
  return y;
}

void Linear::add(Pass& pass, Tensor x, Tensor y) const {
  pass.ops.matmul(pass.stream, {.y = y, .x = x, .weight = weight, .bias = bias, .add = true});
}

}  // namespace rose
