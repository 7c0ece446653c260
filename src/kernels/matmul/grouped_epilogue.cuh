// Parts of epilogues of grouped.cuh: what becomes of 64 rows x kTokens in the registers of a warpgroup.
// total[4 i + (0, 1)] are row r = 16 warp + g, tokens 8 i + 2c + (0, 1); total[4 i + (2, 3)] row r + 8.
#pragma once
#include "device/warp.cuh"
#include "kernels/matmul/segments.cuh"

namespace rose::cuda {

// Two bf16 each, added in f32 and rounded.
__device__ __forceinline__ uint32_t add_bf16(uint32_t a, uint32_t b) {
  return pack_bf16(__uint_as_float(a << 16) + __uint_as_float(b << 16),
                   __uint_as_float(a & 0xffff0000u) + __uint_as_float(b & 0xffff0000u));
}

// Writes bf16 rows [token][0, kRows) from shared memory, 16 bytes a thread. Chunk j of token t lies at chunk
// j ^ (t % (kRows / 8)). With kAdd, adds them to what is there.
template <int kTokens, int kRows, bool kAdd = false, class RowOf>
__device__ __forceinline__ void write_staged(const uint8_t* staged, int count, int rows_left,
                                             const RowOf& row_of) {
  constexpr int kChunks = kRows / 8;
  const int thread = threadIdx.x % 128, chunk = thread % kChunks;
#pragma unroll
  for (int token = thread / kChunks; token < kTokens; token += 128 / kChunks) {
    if (token >= count) break;
    uint4 values = *reinterpret_cast<const uint4*>(staged + token * kRows * 2 +
                                                   (chunk ^ token % kChunks) * 16);
    __nv_bfloat16* to = row_of(token) + chunk * 8;
    if (chunk * 8 + 8 <= rows_left && reinterpret_cast<uintptr_t>(to) % 16 == 0) {
      if constexpr (kAdd) {
        const uint4 before = *reinterpret_cast<const uint4*>(to);
        values = {add_bf16(before.x, values.x), add_bf16(before.y, values.y),
                  add_bf16(before.z, values.z), add_bf16(before.w, values.w)};
      }
      *reinterpret_cast<uint4*>(to) = values;
    } else {
      const uint32_t words[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (chunk * 8 + i < rows_left) {
          const __nv_bfloat16 value = __ushort_as_bfloat16(uint16_t(words[i / 2] >> 16 * (i % 2)));
          to[i] = kAdd ? __float2bfloat16_rn(to_float(to[i]) + to_float(value)) : value;
        }
    }
  }
}

// Scales of rows r and r + 8 of this thread, and biases; 0 of rows that only pad.
struct RowTerms {
  float scale[2], add[2];

  RowTerms() = default;
  __device__ __forceinline__ RowTerms(const Tiles& w, const float* bias, int expert,
                                      int row_block) {
    const int thread = threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = row_block * kTile + thread / 32 * 16 + thread % 32 / 4 + 8 * i;
      const bool exists = row < w.rows;
      scale[i] = exists ? scale_of(w, expert, row) : 0;
      add[i] = exists && bias ? bias[int64_t(expert) * w.rows + row] : 0;
    }
  }
};

// 64 rows of all tokens to shared memory, rounded to bf16, transposed to [token][row].
template <int kSums>
__device__ __forceinline__ void stage_rows(const float (&total)[kSums], const RowTerms& t,
                                           uint8_t* staged, int barrier) {
  const int thread = threadIdx.x % 128, lane = thread % 32;
  named_barrier_sync(barrier, 128);  // the tile before has been written
  if constexpr (kSums == 4)
    store_transposed(staged + lane % 8 * 128 + (thread / 32 * 2 + lane / 8 % 2 ^ lane % 8) * 16,
                     pack_bf16(total[0] * t.scale[0] + t.add[0], total[1] * t.scale[0] + t.add[0]),
                     pack_bf16(total[2] * t.scale[1] + t.add[1], total[3] * t.scale[1] + t.add[1]));
#pragma unroll
  for (int i = 0; i < kSums / 8; ++i) {
    const float* sum = total + 8 * i;
    const int token = 16 * i + lane / 16 * 8 + lane % 8;
    const int chunk = thread / 32 * 2 + lane / 8 % 2;
    store_transposed(staged + token * 128 + (chunk ^ token % 8) * 16,
                     pack_bf16(sum[0] * t.scale[0] + t.add[0], sum[1] * t.scale[0] + t.add[0]),
                     pack_bf16(sum[2] * t.scale[1] + t.add[1], sum[3] * t.scale[1] + t.add[1]),
                     pack_bf16(sum[4] * t.scale[0] + t.add[0], sum[5] * t.scale[0] + t.add[0]),
                     pack_bf16(sum[6] * t.scale[1] + t.add[1], sum[7] * t.scale[1] + t.add[1]));
  }
  named_barrier_sync(barrier, 128);
}

}  // namespace rose::cuda
