#include "layers/moe.h"

#include "kernels/experts/experts.h"
#include "kernels/route/route.h"

namespace rose {

Tensor Moe::operator()(Pass& pass, Tensor x) const {
  Tensor chosen = pass.stream.scratch->take(DType::i32, {x.dims[0], top_k});
  Tensor weights = pass.stream.scratch->take(DType::f32, {x.dims[0], top_k});
  pass.ops.route(
      pass.stream,
      {.experts = chosen, .weights = weights, .x = x, .weight = router, .bias = router_bias});

  Tensor y = pass.take({x.dims[0], x.dims[1]});
  pass.ops.experts(pass.stream, {.y = y,
                                 .x = x,
                                 .experts = chosen,
                                 .weights = weights,
                                 .gate_up = gate_up,
                                 .gate_up_bias = gate_up_bias,
                                 .down = down,
                                 .down_bias = down_bias,
                                 .limit = limit});
  return y;
}

}  // namespace rose
