#include "layers/attention.h"

namespace rose {

void Attention::operator()(Pass& pass, Tensor x, Tensor residual) const {
  const Tensor mixed = qkv(pass, x);  // [tokens, (heads + 2 kv_heads) head_dim]
  const Tensor values = pass.take({x.dims[0], heads * head_dim});
  pass.ops.attend(pass.stream, {.y = values,
                                .qkv = mixed,
                                .kv = pass.kv.layer(layer),
                                .batch = &pass.batch,
                                .sinks = sinks,
                                .window = window,
                                .heads = heads,
                                .head_dim = head_dim,
                                .scale = scale(),
                                .rope = rope});
  out.add(pass, values, residual);
}

}  // namespace rose
