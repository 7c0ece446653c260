// What a processor's vector instructions are used for: the inner loops of the CPU backend as a table of
// functions over plain memory, filled once for each instruction set (kernels_avx2.cc, kernels_avx512.cc).
// Threads, scratch memory and the checking of operands are the ops' own affair (<op>/<op>_cpu.cc).
//
// Every function computes an element of its result by the same operations in the same order however
// many tokens it is given, so a token's result does not depend on its neighbours in the batch; and both
// tables add in the same order, so they agree to the bit.
#pragma once
#include <cstdint>

#include "kernels/weight.h"

namespace rose::cpu {

inline constexpr int kFormats = 4;

// Rows of inputs as a format meets them: f32 as they are, or int8 by 32 (tensor/q8.h).
struct Inputs {
  int64_t stride = 0;       // elements from row to row; whole blocks, or an even number
  float* values = nullptr;  // [rows, stride]  f32, padded with zeros
  int8_t* codes = nullptr;  // [rows, stride]
  float* scales = nullptr;  // [rows, stride / 32]  halved where the weights are doubled E2M1
  int32_t* corrections =
      nullptr;  // [rows, stride / 32]  minus the weights' bias times the codes' sum
};

// A row of activations, in either of the two types they come in.
struct Row {
  void* data;
  bool is_bf16;
};

// y[y_rows[token]][row] = x[x_rows[token]] . w[row] + bias[row], for all tokens and some groups of rows.
struct Dot {
  const uint8_t* matrix = nullptr;  // packed (layout.h)
  int rows = 0;
  int columns = 0;
  int first_group = 0;
  int last_group = 0;  // past the end
  Inputs x;
  const int32_t* x_rows = nullptr;  // or null: row `token`
  int tokens = 0;
  const float* bias = nullptr;      // [rows], or null
  Row y;                            // [.., rows]
  const int32_t* y_rows = nullptr;  // or null: row `token`
  uint8_t* scratch = nullptr;       // dot_scratch_bytes(columns), this thread's own
};
constexpr int64_t dot_scratch_bytes(int columns) { return int64_t(columns + 31) / 32 * 1024; }

// x <- round(x + add); y = round(x * gain / sqrt(mean(x^2) + eps)), one row.
struct NormRow {
  Row y, x;
  const void* add;  // or null
  const float* gain;
  int hidden;
  float eps;
};

// Up to kAttendLanes queries of one sequence that share a kv head, against its pages.
inline constexpr int kAttendLanes = 64;
struct AttendTile {
  int lanes;  // queries: (token, head of the group) pairs
  int head_dim;
  float scale;
  int stride;                // lanes of a row of `queries` and `out`: whole registers
  const float* queries;      // [head_dim, stride]  f32, one column a query
  const float* sinks;        // [stride]
  const int32_t* first_key;  // [stride]  each query's first and last key, positions
  const int32_t* last_key;   // [stride]
  const int32_t* pages;      // the sequence's page table
  const void* page_base;     // K of this kv head in page 0
  int64_t page_stride;       // bytes from page to page
  bool bf16_pages;
  float* out;      // [head_dim, stride]
  float* scratch;  // attend_scratch_floats(head_dim)
};
constexpr int64_t attend_scratch_floats(int head_dim) {
  return 64 * int64_t(head_dim + kAttendLanes);
}

struct Kernels {
  void (*dot[kFormats])(const Dot&);  // by Format
  void (*quantise)(Row x, int columns, float scale_factor, int bias, int8_t* codes, float* scales,
                   int32_t* corrections);
  // scales: bf16 bits
  void (*quantise_weights)(const float* w, int columns, int8_t* codes, uint16_t* scales);
  void (*convert)(Row from, int count, Row to);
  void (*rms_norm)(const NormRow&);
  // logits[e] = x . weight[e] + bias[e]
  void (*route)(const float* x, const uint16_t* weight, const float* bias, int experts, int hidden,
                float* logits);
  // cos and sin of position * frequency[k], times `size`.
  void (*turn)(int position, const float* frequency, int count, float size, float* cos, float* sin);
  // Rotates heads of one token in place (see rope_store.h).
  void (*rotate)(Row x, int heads, int head_dim, const float* cos, const float* sin);
  // gate_up [2 count], interleaved -> a [count], of one token (see experts.h).
  void (*swiglu)(Row gate_up, int count, float limit, float alpha, Row a);
  // y = round(sum_k weights[k] * x[k]), count elements.
  void (*combine)(const Row* x, const float* weights, int terms, int count, Row y);
  void (*attend)(const AttendTile&);
};

extern const Kernels kAvx2;
extern const Kernels kAvx512;

}  // namespace rose::cpu
