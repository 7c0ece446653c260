// Decoding: the keys of a token split over blocks and warps.
#include <algorithm>

#include "device/arena.h"
#include "kernels/attend/variants.cuh"

namespace rose::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kHeads = kTileHeads;  // rows of a product are 16: half are idle
constexpr int kKeys = 16;           // a warp takes so many at a time
constexpr int kDim = kTileDim;
constexpr int kPart =
    kHeads * (kDim + 2);  // floats of a split: values, then largest and total of each head
constexpr int kMaxSplits = 16;
constexpr int kMaxItems = 1 << 16;

// Splits that have written their part, of each token and group of heads. The last sets it back to 0.
__device__ int arrived[kMaxItems];

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

__device__ inline float weight_of(float most, float base) {
  return most == -INFINITY ? 0 : exp2_approx(most - base);
}

// The keys of a token are split over blocks, those of a block over its warps, 16 at a time. Warps meet in
// shared memory, blocks in `parts`, where the last to arrive adds them up in the order of splits.
//
//   parts  [tokens, groups of heads, splits, {kHeads kDim values, kHeads largest, kHeads totals}]  f32
//   grid   splits, kv_heads x groups of kHeads heads, tokens
//   needs  head_dim 64; pages aligned to 16 bytes
__global__ void __launch_bounds__(kWarps* kWarp)
    split_kernel(const __grid_constant__ AttendParams<Bf16, Bf16> p) {
  __shared__ float values[kWarps][kHeads][kDim], mosts[kWarps][kHeads], totals[kWarps][kHeads];
  __shared__ bool last;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, c = lane % 4;
  const int group = p.heads / p.kv_heads, groups = (group + kHeads - 1) / kHeads;
  const int split = blockIdx.x, token = blockIdx.z;
  const int kv_head = blockIdx.y / groups, part_of_group = blockIdx.y % groups;
  const int heads = min(kHeads, group - part_of_group * kHeads);
  const int first_head = kv_head * group + part_of_group * kHeads;

  const int position = p.positions[token], from = max(0, position - p.window + 1);
  const int* table = p.page_table + int64_t(p.sequence[token]) * p.table_width;
  const int first_step = from / kKeys, steps = position / kKeys - first_step + 1;
  const int per_split = (steps + p.splits - 1) / p.splits;
  const int begin = first_step + split * per_split;
  const int end = min(first_step + steps, begin + per_split);

  constexpr float kLog2E = 1.4426950408889634f;
  Running run;
  if (split == 0 && warp == 0 && g < heads) {
    run.most = p.sinks[first_head + g] * kLog2E;
    run.total = c == 0 ? 1 : 0;  // lanes add up at the end
  }

  // Page numbers, 32 steps of this warp at a time, a lane each.
  int page_of_lane = 0;
  const auto page = [&](int turn, int step) {
    if (turn % kWarp == 0) {
      const int mine = step + lane * kWarps;
      page_of_lane = mine < end ? table[mine * kKeys / kPageSize] : 0;
    }
    const int number = __shfl_sync(~0u, page_of_lane, turn % kWarp);
    return p.pages + (int64_t(number) * p.kv_heads + kv_head) * 2 * kPageSize * kDim;
  };
  // Page tables and the keys of earlier steps are no kernel's of this step: they need not wait for it.
  Keys now, next;
  int turn = 0, step = begin + warp;
  const Bf16* first_page = step < end ? page(turn, step) : nullptr;
  const int known = p.positions[p.first[p.sequence[token]]];  // keys before this step
  const bool early = step < end && (step + 1) * kKeys <= known;
  if (early) now.load(first_page, step * kKeys % kPageSize, g, c);
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (step < end && !early) now.load(first_page, step * kKeys % kPageSize, g, c);
  uint4 q[2] = {};
  if (g < heads) {
    const Bf16* query =
        p.qkv + (int64_t(token) * (p.heads + 2 * p.kv_heads) + first_head + g) * kDim + 8 * c;
    q[0] = *reinterpret_cast<const uint4*>(query);
    q[1] = *reinterpret_cast<const uint4*>(query + 32);
  }
  for (; step < end; step += kWarps) {
    ++turn;
    const int following = step + kWarps;
    if (following < end) next.load(page(turn, following), following * kKeys % kPageSize, g, c);
    now.clear_outside(step * kKeys, from, position, c);
    run.add(now, q, step * kKeys, from, position, p.scale * kLog2E, c);
    now = next;
  }

  // The warps of the block.
  run.total += __shfl_xor_sync(~0u, run.total, 1);
  run.total += __shfl_xor_sync(~0u, run.total, 2);
#pragma unroll
  for (int j = 0; j < 8; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) values[warp][g][16 * c + 8 * i + j] = run.sum[j][i];
  if (c == 0) mosts[warp][g] = run.most, totals[warp][g] = run.total;
  __syncthreads();

  const int64_t item = int64_t(token) * gridDim.y + blockIdx.y;
  float* parts = p.parts + item * p.splits * kPart;
  for (int i = threadIdx.x; i < heads * kDim; i += kWarps * kWarp) {
    const int head = i / kDim, d = i % kDim;
    float base = -INFINITY, sum = 0, total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) base = fmaxf(base, mosts[w][head]);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float weight = weight_of(mosts[w][head], base);
      sum += weight * values[w][head][d], total += weight * totals[w][head];
    }
    if (p.splits == 1) {
      p.y[(int64_t(token) * p.heads + first_head + head) * kDim + d] =
          __float2bfloat16_rn(sum / total);
    } else {
      float* part = parts + split * kPart;
      part[i] = sum;
      if (d == 0) part[kHeads * kDim + head] = base, part[kHeads * (kDim + 1) + head] = total;
    }
  }
  if (p.splits == 1) return;

  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(&arrived[item], 1) == p.splits - 1;
    if (last) arrived[item] = 0;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;

  // Each split's share of a head first, then the values, four at a time.
  __shared__ float shares[kMaxSplits][kHeads];
  for (int i = threadIdx.x; i < p.splits * kHeads; i += kWarps * kWarp)
    shares[i / kHeads][i % kHeads] =
        __ldcg(parts + i / kHeads * kPart + kHeads * kDim + i % kHeads);
  __syncthreads();
  if (threadIdx.x < kHeads) {
    const int head = threadIdx.x;
    float base = -INFINITY, total = 0;
    for (int s = 0; s < p.splits; ++s) base = fmaxf(base, shares[s][head]);
#pragma unroll 4
    for (int s = 0; s < p.splits; ++s) {
      shares[s][head] = weight_of(shares[s][head], base);
      total += shares[s][head] * __ldcg(parts + s * kPart + kHeads * (kDim + 1) + head);
    }
    for (int s = 0; s < p.splits; ++s) shares[s][head] /= total;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < heads * kDim / 4; i += kWarps * kWarp) {
    const int head = i * 4 / kDim;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int s = 0; s < p.splits; ++s) {
      const float4 part = __ldcg(reinterpret_cast<const float4*>(parts + s * kPart) + i);
      const float share = shares[s][head];
      sum.x += share * part.x, sum.y += share * part.y;
      sum.z += share * part.z, sum.w += share * part.w;
    }
    *reinterpret_cast<uint2*>(p.y + (int64_t(token) * p.heads + first_head) * kDim + i * 4) =
        make_uint2(pack_bf16(sum.x, sum.y), pack_bf16(sum.z, sum.w));
  }
}

}  // namespace

void attend_split(Stream& stream, const Attend& op, AttendParams<Bf16, Bf16> params) {
  const int tokens = op.batch->tokens, group = params.heads / params.kv_heads;
  const int groups = params.kv_heads * ((group + kHeads - 1) / kHeads);
  // Enough blocks for every multiprocessor twice, but no split for less than 64 keys.
  const int longest = std::min<int64_t>(op.window, int64_t(params.table_width) * kPageSize);
  const int wanted = (2 * multiprocessors() + tokens * groups - 1) / (tokens * groups);
  params.splits = std::clamp(std::min(wanted, longest / (kWarps * kKeys)), 1, kMaxSplits);
  if (int64_t(tokens) * groups > kMaxItems || op.window <= 256) params.splits = 1;
  if (params.splits > 1)
    params.parts =
        stream.scratch->take(DType::f32, {tokens, groups, params.splits, kPart}).as<float>();
  launch<split_kernel>("attend",
                       {.blocks = dim3(unsigned(params.splits), unsigned(groups), unsigned(tokens)),
                        .threads = kWarps * kWarp},
                       stream, params);
}

}  // namespace rose::cuda
