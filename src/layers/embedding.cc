#include "layers/embedding.h"

#include "kernels/embed/embed.h"

namespace rose {

Tensor Embedding::operator()(Pass& pass) const {
  Tensor y = pass.take({pass.batch.tokens, table.dims[1]});
  pass.ops.embed(
      pass.stream,
      {.y = y, .token_ids = pass.batch.token_ids, .newest = pass.batch.newest, .table = table});
  return y;
}

}  // namespace rose
