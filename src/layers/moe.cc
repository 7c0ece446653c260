#include "layers/moe.h"

#include "kernels/experts/experts.h"
#include "kernels/route/route.h"

namespace rose {

Terms Moe::room(Pass& pass, int64_t tokens) const {
  return {.rows = pass.take({tokens, top_k, down.rows}),
          .weights = pass.stream.scratch->take(DType::f32, {tokens, top_k})};
}

void Moe::operator()(Pass& pass, const Norm& norm, Tensor x, const Terms& out) const {
  const Tensor chosen = pass.stream.scratch->take(DType::i32, {x.dims[0], top_k});
  const Tensor normed = pass.take({x.dims[0], x.dims[1]});
  pass.ops.route(pass.stream, {.experts = chosen,
                               .weights = out.weights,
                               .x = x,
                               .weight = router,
                               .bias = router_bias,
                               .gain = norm.gain,
                               .eps = norm.eps,
                               .normed = normed});
  pass.ops.experts(pass.stream, {.y = out.rows,
                                 .x = normed,
                                 .experts = chosen,
                                 .gate_up = gate_up,
                                 .gate_up_bias = gate_up_bias,
                                 .down = down,
                                 .down_bias = down_bias,
                                 .limit = limit});
}

}  // namespace rose
