// What a warp of attend_split.cu holds: keys and values of 16 positions, the token's own key, running sums.
#pragma once
#include "kernels/attend/variants.cuh"

namespace rose::cuda {

namespace {

constexpr int kHeads = kTileHeads;  // rows of a product are 16: half are idle
constexpr int kKeys = 16;           // a warp takes so many at a time
constexpr int kDim = kTileDim;

// Keys and values of 16 positions as the products want them, straight from their page. For lane
// (g, c): keys g and g + 8, dimensions 8c .. 8c + 7 and 32 + 8c ..; values of keys 2c, 2c + 1, 2c + 8,
// 2c + 9, dimensions 8g .. 8g + 7.
struct Keys {
  uint4 k[2][2], v[4];
  // Values outside [from, to] may be anything, and 0 times NaN is NaN.
  __device__ __forceinline__ void clear_outside(int first, int from, int to, int c) {
    if (first >= from && first + kKeys - 1 <= to) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first + 2 * c + i % 2 + i / 2 * 8;
      if (key < from || key > to) v[i] = make_uint4(0, 0, 0, 0);
    }
  }
  __device__ __forceinline__ void load(const Bf16* page, int first, int g, int c) {
    const Bf16* key = page + (first + g) * kDim + 8 * c;
    const Bf16* value = page + (kPageSize + first + 2 * c) * kDim + 8 * g;
    k[0][0] = load_streaming(key);
    k[0][1] = load_streaming(key + 32);
    k[1][0] = load_streaming(key + 8 * kDim);
    k[1][1] = load_streaming(key + 8 * kDim + 32);
    v[0] = load_streaming(value);
    v[1] = load_streaming(value + kDim);
    v[2] = load_streaming(value + 8 * kDim);
    v[3] = load_streaming(value + 9 * kDim);
  }
};

// The token's own key, rotated, and value, on their way to the page.
struct Fresh {
  __align__(16) Bf16 key[kDim], value[kDim];

  // In place of what the page holds for key `row` of the 16.
  __device__ __forceinline__ void put(Keys& keys, int row, int g, int c) const {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (row == g + 8 * i) {
        keys.k[i][0] = *reinterpret_cast<const uint4*>(key + 8 * c);
        keys.k[i][1] = *reinterpret_cast<const uint4*>(key + 32 + 8 * c);
      }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (row == 2 * c + i % 2 + i / 2 * 8)
        keys.v[i] = *reinterpret_cast<const uint4*>(value + 8 * g);
  }
};

// Eight pairs at once: dimensions d .. d + 7 in `low`, their partners in `high`.
__device__ __forceinline__ void rotate(uint4& low, uint4& high, const float2* turns) {
  uint32_t* a = &low.x;
  uint32_t* b = &high.x;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float x[2], y[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float2 turn = turns[2 * i + j];
      const float p = __uint_as_float(j ? a[i] & 0xffff0000u : a[i] << 16);
      const float q = __uint_as_float(j ? b[i] & 0xffff0000u : b[i] << 16);
      x[j] = p * turn.x - q * turn.y, y[j] = q * turn.x + p * turn.y;
    }
    a[i] = pack_bf16(x[0], x[1]), b[i] = pack_bf16(y[0], y[1]);
  }
}

// What a lane knows of head g: the largest score, the total of its own keys, and dimensions
// 16c .. 16c + 15 of the values: sum[j][i] is 16c + 8i + j.
struct Running {
  float most = -INFINITY, total = 0;
  float sum[8][4] = {};

  __device__ __forceinline__ void add(const Keys& keys, const uint4 (&q)[2], int first, int from,
                                      int to, float scale, int c) {
    float score[2][4] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      mma_bf16(score[i], q[0].x, 0, q[0].y, 0, keys.k[i][0].x, keys.k[i][0].y);
      mma_bf16(score[i], q[0].z, 0, q[0].w, 0, keys.k[i][0].z, keys.k[i][0].w);
      mma_bf16(score[i], q[1].x, 0, q[1].y, 0, keys.k[i][1].x, keys.k[i][1].y);
      mma_bf16(score[i], q[1].z, 0, q[1].w, 0, keys.k[i][1].z, keys.k[i][1].w);
    }
    float largest = most, weight[2][2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int key = first + 8 * i + 2 * c + j;
        weight[i][j] = key >= from && key <= to ? score[i][j] * scale : -INFINITY;
        largest = fmaxf(largest, weight[i][j]);
      }
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
    const float base = largest == -INFINITY ? 0 : largest;
    const float shrink = exp2_approx(most - base);
    most = largest;
    total *= shrink;
    uint32_t high[2], low[2];  // a weight as the sum of two bf16: 16 bits of it count
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        weight[i][j] = exp2_approx(weight[i][j] - base);
        total += weight[i][j];
      }
      high[i] = pack_bf16(weight[i][0], weight[i][1]);
      low[i] = pack_bf16(weight[i][0] - __uint_as_float(high[i] << 16),
                         weight[i][1] - __uint_as_float(high[i] & 0xffff0000u));
    }
    const uint32_t* v0 = &keys.v[0].x;
    const uint32_t* v1 = &keys.v[1].x;
    const uint32_t* v2 = &keys.v[2].x;
    const uint32_t* v3 = &keys.v[3].x;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const uint32_t select = j % 2 ? 0x7632 : 0x5410;
      const uint32_t b0 = permute(v0[j / 2], v1[j / 2], select);
      const uint32_t b1 = permute(v2[j / 2], v3[j / 2], select);
      sum[j][0] *= shrink, sum[j][1] *= shrink;
      mma_bf16(sum[j], high[0], 0, high[1], 0, b0, b1);
      mma_bf16(sum[j], low[0], 0, low[1], 0, b0, b1);
    }
  }
};

}  // namespace

}  // namespace rose::cuda
