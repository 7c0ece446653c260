// Grouped-query attention over the paged cache, with a learned sink a head: one more logit in the
// softmax, with no value behind it.
#pragma once
#include <cmath>

#include "kernels/attend/attend.h"
#include "kernels/rope_store/rope_store.h"
#include "layers/linear.h"

namespace rose {

struct Attention {
  Linear qkv;    // [(heads + 2 kv_heads) head_dim, hidden]
  Linear out;    // [hidden, heads head_dim]
  Tensor sinks;  // [heads]  f32
  Rope rope;
  int layer = 0;           // whose keys and values in the cache are ours
  int window = kEveryKey;  // keys a query sees, itself included
  int heads = 0;
  int head_dim = 0;

  float scale() const { return 1 / std::sqrt(float(head_dim)); }  // of scores

  // residual <- residual + attention(x). Both [tokens, hidden].
  void operator()(Pass& pass, Tensor x, Tensor residual) const;
};

}  // namespace rose
