// What the kernel of decode.cu is told.
#pragma once
#include "kernels/pack/tiles.cuh"

namespace rose::cuda {

constexpr int kMaxDecodeLayers = 48;

// The products of a layer, in their order.
enum { kQkv, kOut, kGateUp, kDown, kProducts };

// Rows that are multiplied together: E4M3 by a warp, MXFP4 by a warpgroup.
__host__ __device__ constexpr int group_rows(int product) { return product < kGateUp ? 16 : 64; }

struct ProductShape {
  int matrices;  // that a token meets: 1, or top_k
  int rows;      // of a matrix
  int groups;    // of a matrix: rows by group_rows, padded to whole tiles
  int units;     // columns by 64
  int chunks;    // of a group: columns by 64 (E4M3) or 128 (MXFP4)
  bool cut;      // a group's columns may be shared by two blocks, that add up in memory
};

struct ProductWeights {
  const uint8_t* data;  // tiles (kernels/pack/tiles.cuh)
  const float* scales;  // [matrices, groups * group_rows]
  const float* bias;    // [matrices, rows]
};

struct DecodeLayerParams {
  ProductWeights of[kProducts];
  const float* attention_gain;  // [hidden]
  const float* sinks;           // [heads]
  const float* moe_gain;        // [hidden]
  const __nv_bfloat16* router;  // [experts, hidden]
  const float* router_bias;     // [experts]
  __nv_bfloat16* pages;         // [pages, kv_heads, 2, page_size head_dim]
  const int* page_table;        // [table_width]
  int window;
};

struct DecodeParams {
  ProductShape shapes[kProducts];
  int layers, hidden, heads, kv_heads, experts, top_k, ffn;
  float eps, limit, alpha;
  float scale, concentration;
  const float* inverse_frequency;  // [head_dim / 2]
  const int* position;
  __nv_bfloat16* x;  // [hidden]  in: the embedding; out: the residual stream
  // Between the blocks.
  __nv_bfloat16* attended;  // [heads head_dim]
  float* parts;             // [kv_heads, splits]: attend/split_parts.cuh
  float* logits;            // [experts]
  __nv_bfloat16* gated;     // [top_k, ffn]
  // Of the last layer.
  __nv_bfloat16* rows;  // [top_k, hidden]
  float* weights;       // [top_k]
  DecodeLayerParams layer[kMaxDecodeLayers];
};

}  // namespace rose::cuda
