// Keys of one token split over blocks, those of a block over its warps: what a warp holds (keys and values of 16
// positions, running sums), the token's own key, and how warps and blocks bring together what they have.
#pragma once
#include <type_traits>

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

// The token's own key and value on their way from qkv to its page and to the block's warps: the first threads of the
// block, four for the key.
constexpr int kOwnThreads = 8;
struct OwnKey {
  uint4 low = {}, high = {};

  // eight(i): values i .. i + 7 of the token's qkv
  template <class Eight>
  __device__ __forceinline__ void load(int thread, int heads, int kv_heads, int kv_head,
                                       const Eight& eight) {
    const int from = (heads + kv_head + thread / 4 * kv_heads) * kDim + thread % 4 * 8;
    low = eight(from);
    high = eight(from + 32);
  }
  // page: of the kv head; row: of the token in it
  __device__ __forceinline__ void keep(int thread, const float2* turns, Fresh& fresh, Bf16* page,
                                       int row) {
    if (thread < 4) rotate(low, high, turns + 8 * thread);
    const int at = thread % 4 * 8;
    Bf16* kept = (thread < 4 ? fresh.key : fresh.value) + at;
    Bf16* to = page + (thread / 4 * kPageSize + row) * kDim + at;
    *reinterpret_cast<uint4*>(kept) = *reinterpret_cast<uint4*>(to) = low;
    *reinterpret_cast<uint4*>(kept + 32) = *reinterpret_cast<uint4*>(to + 32) = high;
  }
};

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
#pragma unroll
      for (float& value : sum[j]) value *= shrink;
      mma_bf16(sum[j], high[0], low[0], high[1], low[1], b0, b1);
    }
  }
};

constexpr int kMaxSplits = 16;
constexpr int kPart =
    kHeads * (kDim + 2);  // floats of a split: values, then largest and total of each head

__device__ inline float weight_of(float most, float base) {
  return most == -INFINITY ? 0 : exp2_approx(most - base);
}

// Of 16 lanes that each have a part of the same head: what a lane's counts for beside the others', and of all together the
// largest and the total.
struct Share {
  float weight, most, total;
};
__device__ __forceinline__ Share share_of(float most, float total) {
  float base = most;
#pragma unroll
  for (int other = 1; other < 16; other *= 2) base = fmaxf(base, __shfl_xor_sync(~0u, base, other));
  const float weight = weight_of(most, base);
  float sum = weight * total;
#pragma unroll
  for (int other = 1; other < 16; other *= 2) sum += __shfl_xor_sync(~0u, sum, other);
  return {weight, base, sum};
}
constexpr int kSharers = kHeads * 16;  // threads
static_assert(kMaxSplits == 16);

template <int kWarps>
struct SplitShared {
  float values[kWarps][kHeads][kDim], mosts[kWarps][kHeads], totals[kWarps][kHeads];
  float block_most[kHeads], block_total[kHeads];
  float shares[kMaxSplits][kHeads];
  bool last;
};

// Which split of a token and a group of heads a block has.
struct SplitOf {
  int split, splits, heads;
  float* parts;  // [splits] of kPart
  int* arrived;  // splits that have written their part; the last sets it back to 0
  Bf16* y;       // [heads, kDim]
};

// Warps meet in shared memory, blocks in `parts`, where the last to arrive adds them up in the order of splits. By the
// first kWarps warps of the block, which `sync` brings together.
template <int kWarps, class Sync>
__device__ __forceinline__ void finish_split(int thread, SplitShared<kWarps>& s, Running& run,
                                             const SplitOf& of, const Sync& sync) {
  const int warp = thread / kWarp, lane = thread % kWarp, g = lane / 4, c = lane % 4;
  run.total += __shfl_xor_sync(~0u, run.total, 1);
  run.total += __shfl_xor_sync(~0u, run.total, 2);
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      s.values[warp][g][16 * c + 8 * i + j] = run.sum[j][i] + run.sum[j][i + 2];
  if (c == 0) s.mosts[warp][g] = run.most, s.totals[warp][g] = run.total;
  sync();

  // What each warp's part of a head counts for, and the total of all.
  if (thread < kSharers) {
    const int head = thread / 16, w = thread % 16;
    const float most = w < kWarps ? s.mosts[w][head] : -INFINITY;
    const Share share = share_of(most, w < kWarps ? s.totals[w][head] : 0);
    if (w < kWarps) s.totals[w][head] = share.weight;
    if (w == 0) s.block_most[head] = share.most, s.block_total[head] = share.total;
  }
  sync();
  float* parts = of.parts;
  for (int i = thread; i < of.heads * kDim; i += kWarps * kWarp) {
    const int head = i / kDim, d = i % kDim;
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += s.totals[w][head] * s.values[w][head][d];
    if (of.splits == 1) {
      of.y[i] = __float2bfloat16_rn(sum / s.block_total[head]);
    } else {
      float* part = parts + of.split * kPart;
      part[i] = sum;
      if (d == 0)
        part[kHeads * kDim + head] = s.block_most[head],
                             part[kHeads * (kDim + 1) + head] = s.block_total[head];
    }
  }
  if (of.splits == 1) return;

  sync();
  if (thread == 0) {
    __threadfence();
    s.last = atomicAdd(of.arrived, 1) == of.splits - 1;
    if (s.last) *of.arrived = 0;
    __threadfence();
  }
  sync();
  if (!s.last) return;

  // Values of all splits at once, and meanwhile each split's share of a head.
  constexpr int kMine = kWarps >= 16 ? 1 : kWarps >= 8 ? 2 : 4;  // values of a thread
  static_assert(kMine * kWarps * kWarp >= kHeads * kDim);
  using Values =
      std::conditional_t<kMine == 1, float, std::conditional_t<kMine == 2, float2, float4>>;
  Values part[kMaxSplits] = {};
  const int first = thread * kMine;
  const bool has_values = first < of.heads * kDim;
#pragma unroll
  for (int n = 0; n < kMaxSplits; ++n)
    if (n < of.splits && has_values)
      part[n] = __ldcg(reinterpret_cast<const Values*>(parts + n * kPart + first));
  if (thread < kSharers) {
    const int head = thread / 16, n = thread % 16;
    const float* from = parts + n * kPart + kHeads * kDim + head;
    const Share share = share_of(n < of.splits ? __ldcg(from) : -INFINITY,
                                 n < of.splits ? __ldcg(from + kHeads) : 0);
    s.shares[n][head] = share.weight / share.total;
  }
  sync();
  if (!has_values) return;
  float sum[kMine] = {};
#pragma unroll
  for (int n = 0; n < kMaxSplits; ++n)
    if (n < of.splits)
#pragma unroll
      for (int i = 0; i < kMine; ++i)
        sum[i] += s.shares[n][first / kDim] * reinterpret_cast<const float*>(&part[n])[i];
#pragma unroll
  for (int i = 0; i < kMine; ++i) of.y[first + i] = __float2bfloat16_rn(sum[i]);
}

}  // namespace

}  // namespace rose::cuda
