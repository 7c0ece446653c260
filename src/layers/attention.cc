#include "layers/attention.h"

#include <cmath>

namespace rose {

Tensor Attention::operator()(Pass& pass, Tensor x) const {
  const KvLayer& kv = pass.kv.layer(layer);

  Tensor mixed = qkv(pass, x);  // [tokens, (heads + 2 kv_heads) head_dim]
  pass.ops.rope_store(pass.stream, {.qkv = mixed,
                                    .kv = kv,
                                    .batch = &pass.batch,
                                    .rope = rope,
                                    .heads = heads,
                                    .head_dim = head_dim});

  Tensor values = pass.take({x.dims[0], heads * head_dim});
  pass.ops.attend(pass.stream, {.y = values,
                                .qkv = mixed,
                                .kv = kv,
                                .batch = &pass.batch,
                                .sinks = sinks,
                                .window = window,
                                .heads = heads,
                                .head_dim = head_dim,
                                .scale = 1 / std::sqrt(float(head_dim))});
  return out(pass, values);
}

}  // namespace rose
