// What the variants of attend are told.
#pragma once
#include "device/launch.cuh"
#include "device/warp.cuh"
#include "kernels/attend/attend.h"

namespace rose::cuda {

template <class T, class K>
struct AttendParams {
  T* y;                   // [tokens, heads head_dim]
  const T* qkv;           // [tokens, (heads + 2 kv_heads) head_dim]
  K* pages;               // [pages, kv_heads, 2, page_size head_dim]
  const int* positions;   // [tokens]
  const int* sequence;    // [tokens]
  const int* page_table;  // [seqs, table_width]
  const float* sinks;     // [heads]
  float* parts;           // of the splits: see attend_split.cu
  const int* first;       // [seqs + 1]
  int seqs, table_width, window, heads, kv_heads, head_dim, splits;
  float scale;
  const float* inverse_frequency;  // null: queries and keys are rotated, and stored
  float concentration;
};

using Bf16 = __nv_bfloat16;

constexpr int kTileDim = 64;   // head_dim of both variants below
constexpr int kTileHeads = 8;  // query heads that share keys in a block: rows of its products

// Few tokens a sequence.
void attend_split(Stream& stream, const Attend& op, AttendParams<Bf16, Bf16> params);

// Many, with up to kTileHeads query heads a kv head.
void attend_tile(Stream& stream, const Attend& op, const AttendParams<Bf16, Bf16>& params);

}  // namespace rose::cuda
