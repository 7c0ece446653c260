// Causal attention over the paged cache. It holds this step's keys and values already, or `rope` is given:
// then queries and keys are as the matrix made them, and are rotated and stored first (rope_store.h). What
// is left in qkv after that is the backend's affair.
//
//   score_j = scale * q . k_j          for max(0, i - window + 1) <= j <= i
//   p_j     = exp(score_j) / (sum exp(score) + exp(sink_head))
//   y       = round(sum p_j v_j)
//
// The sink is one more logit in the softmax, not scaled, with no value behind it. Everything between
// the loads and the last rounding is f32 (the reference: f64); only the weights p may be rounded to bf16
// where they meet values in bf16. Query head h reads kv head h / (heads / kv_heads).
#pragma once
#include "device/device.h"
#include "kernels/batch.h"
#include "kernels/rope_store/rope_store.h"

namespace rose {

inline constexpr int kEveryKey = 1 << 30;  // a window that nothing leaves

struct Attend {
  Tensor y;    // [tokens, heads head_dim]  f32 or bf16
  Tensor qkv;  // [tokens, (heads + 2 kv_heads) head_dim]  like y
  KvLayer kv;
  const Batch* batch;
  Tensor sinks;            // [heads]  f32
  int window = kEveryKey;  // keys a query sees, itself included
  int heads = 0;
  int head_dim = 0;
  float scale = 1;
  Rope rope = {};  // or none
};

// The rotation by itself, for a backend that does not compute both at once.
inline RopeStore rope_store_of(const Attend& op) {
  return {.qkv = op.qkv,
          .kv = op.kv,
          .batch = op.batch,
          .rope = op.rope,
          .heads = op.heads,
          .head_dim = op.head_dim};
}

}  // namespace rose
