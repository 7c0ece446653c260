#include "kernels/decode/decode.h"

namespace rose {

namespace {

void check_weight(const char* name, const Weight& weight, int64_t matrices, int64_t rows,
                  int64_t columns) {
  ROSE_CHECK(weight.experts == matrices && weight.rows == rows && weight.columns == columns,
             "decode: %s is %d x [%d, %d], wanted %ld x [%ld, %ld]", name, weight.experts,
             weight.rows, weight.columns, long(matrices), long(rows), long(columns));
}

}  // namespace

DecodeSizes sizes_of(const Decode& op) {
  ROSE_CHECK(!op.layers.empty() && op.batch->tokens == 1 && op.batch->seqs == 1,
             "decode: %zu layers, %d tokens of %d sequences", op.layers.size(), op.batch->tokens,
             op.batch->seqs);
  Dim one("tokens", 1), two("keys and values", 2), hidden("hidden"), top_k("top_k");
  Dim heads("heads", op.heads), kv_heads("kv_heads"), experts("experts");
  Dim page("page_size head_dim", kPageSize * op.head_dim), half("head_dim / 2", op.head_dim / 2);
  shape_check("decode", op.x, "x", {&one, &hidden});
  shape_check("decode", op.expert_rows, "expert_rows", {&one, &top_k, &hidden});
  shape_check("decode", op.expert_weights, "expert_weights", {&one, &top_k});
  shape_check("decode", op.batch->positions, "positions", {&one});
  shape_check("decode", op.rope.inverse_frequency, "inverse_frequency", {&half});
  const int ffn = op.layers[0].down.columns;
  Dim wide("2 ffn", 2 * ffn);
  for (const DecodeLayer& l : op.layers) {
    Dim pages("pages"), width("page table width");
    shape_check("decode", l.kv.pages, "kv.pages", {&pages, &kv_heads, &two, &page});
    shape_check("decode", op.batch->pages[int(l.kv.pool)], "page table", {&one, &width});
    Dim qkv("(heads + 2 kv_heads) head_dim", (op.heads + 2 * kv_heads) * op.head_dim);
    shape_check("decode", l.attention_gain, "attention_gain", {&hidden});
    shape_check("decode", l.qkv_bias, "qkv_bias", {&qkv});
    shape_check("decode", l.sinks, "sinks", {&heads});
    shape_check("decode", l.out_bias, "out_bias", {&hidden});
    shape_check("decode", l.moe_gain, "moe_gain", {&hidden});
    shape_check("decode", l.router, "router", {&experts, &hidden});
    shape_check("decode", l.router_bias, "router_bias", {&experts});
    shape_check("decode", l.gate_up_bias, "gate_up_bias", {&experts, &wide});
    shape_check("decode", l.down_bias, "down_bias", {&experts, &hidden});
    check_weight("qkv", l.qkv, 1, qkv, hidden);
    check_weight("out", l.out, 1, hidden, int64_t(op.heads) * op.head_dim);
    check_weight("gate_up", l.gate_up, experts, wide, hidden);
    check_weight("down", l.down, experts, hidden, ffn);
  }
  ROSE_CHECK(op.heads % kv_heads == 0 && top_k <= experts,
             "decode: %d heads on %ld kv heads, %ld of %ld experts", op.heads, long(kv_heads),
             long(top_k), long(experts));
  return {.hidden = int(hidden),
          .experts = int(experts),
          .top_k = int(top_k),
          .ffn = ffn,
          .kv_heads = int(kv_heads)};
}

}  // namespace rose
