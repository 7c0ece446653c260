#include "kernels/attend/attend.h"

#include <algorithm>

#include "device/arena.h"
#include "device/launch.cuh"
#include "device/ptx.cuh"
#include "device/warp.cuh"
#include "kernels/cuda.h"

namespace rose::cuda {

namespace {

template <class T, class K>
struct Params {
  T* y;                   // [tokens, heads head_dim]
  const T* qkv;           // [tokens, (heads + 2 kv_heads) head_dim]
  const K* pages;         // [pages, kv_heads, 2, page_size head_dim]
  const int* positions;   // [tokens]
  const int* sequence;    // [tokens]
  const int* page_table;  // [seqs, table_width]
  const float* sinks;     // [heads]
  float* parts;           // of the splits: see split_kernel
  const int* first;       // [seqs + 1]
  int seqs, table_width, window, heads, kv_heads, head_dim, splits;
  float scale;
};

// --- plain: any head, any type -----------------------------------------------------------

constexpr int kMaxHeadDim = 256;

// One warp a token and head. Lanes are keys for the scores, dimensions for the values.
//   grid   tokens, heads
template <class T, class K>
__global__ void __launch_bounds__(kWarp) plain_kernel(const __grid_constant__ Params<T, K> p) {
  constexpr int kPerLane = kMaxHeadDim / kWarp;
  __shared__ float q[kMaxHeadDim];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int token = blockIdx.x, head = blockIdx.y, lane = threadIdx.x, dim = p.head_dim;
  const int kv_head = head / (p.heads / p.kv_heads), position = p.positions[token];
  const T* query = p.qkv + (int64_t(token) * (p.heads + 2 * p.kv_heads) + head) * dim;
  for (int d = lane; d < dim; d += kWarp) q[d] = to_float(query[d]);
  __syncwarp();
  const int* table = p.page_table + int64_t(p.sequence[token]) * p.table_width;
  const auto row = [&](int key, int part) {
    return p.pages +
           ((int64_t(table[key / kPageSize]) * p.kv_heads + kv_head) * 2 + part) * kPageSize * dim +
           key % kPageSize * dim;
  };

  float most = p.sinks[head], total = 1, sum[kPerLane] = {};
  for (int first = max(0, position - p.window + 1); first <= position; first += kWarp) {
    const int key = first + lane;
    float score = -INFINITY;
    if (key <= position) {
      const K* k = row(key, 0);
      score = 0;
      for (int d = 0; d < dim; ++d) score += q[d] * to_float(k[d]);
      score *= p.scale;
    }
    const float now = fmaxf(most, warp_max(score));
    const float shrink = expf(most - now), weight = expf(score - now);
    most = now;
    total = total * shrink + warp_sum(weight);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) sum[i] *= shrink;
    for (int j = 0; j < kWarp && first + j <= position; ++j) {
      const float of_key = __shfl_sync(~0u, weight, j);
      const K* v = row(first + j, 1);
#pragma unroll
      for (int i = 0; i < kPerLane; ++i)
        if (lane + i * kWarp < dim) sum[i] += of_key * to_float(v[lane + i * kWarp]);
    }
  }
  T* y = p.y + (int64_t(token) * p.heads + head) * dim;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i)
    if (lane + i * kWarp < dim) y[lane + i * kWarp] = from_float<T>(sum[i] / total);
}

// --- split: head_dim 64, bf16, few tokens ---------------------------------------------------

constexpr int kWarps = 4;
constexpr int kHeads = 8;  // query heads of a block, rows of its products (of 16, half are idle)
constexpr int kKeys = 16;  // a warp takes so many at a time
constexpr int kDim = 64;
constexpr int kPart =
    kHeads * (kDim + 2);  // floats of a split: values, then largest and total of each head
constexpr int kMaxSplits = 16;
constexpr int kMaxItems = 1 << 16;

// Splits that have written their part, of each token and group of heads. The last sets it back to 0.
__device__ int arrived[kMaxItems];

using Bf16 = __nv_bfloat16;

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
    split_kernel(const __grid_constant__ Params<Bf16, Bf16> p) {
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

void split(Stream& stream, const Attend& op, Params<Bf16, Bf16> params) {
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

// --- prompts: head_dim 64, bf16, several tokens a sequence -----------------------------------------------

constexpr int kTileWarps = 8;
constexpr int kTileTokens = 2 * kTileWarps;  // x kHeads rows: 16 rows a warp are two tokens

// Flash attention with the query heads of a kv head packed into the rows: keys are read once for all of them.
// A block takes 16 tokens of one sequence; keys and values come page by page (64 of them), the next page while
// this one is multiplied. 16-byte chunk j of key k lies at chunk j ^ (k % 8).
//   grid   tiles (at most), kv_heads
//   needs  up to kHeads query heads a kv head
__global__ void __launch_bounds__(kTileWarps* kWarp, 2)
    tile_kernel(const __grid_constant__ Params<Bf16, Bf16> p) {
  constexpr int kPageBytes = kPageSize * kDim * 2;  // of keys, or of values
  __shared__ __align__(1024) uint8_t pages[2][2][kPageBytes];
  __shared__ int found[2];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, c = lane % 4;

  // Which sequence's tile this is: every sequence has as many as its tokens need.
  if (warp == 0) {
    int before = 0;  // tiles of the sequences so far
    if (lane == 0) found[0] = -1;
    for (int base = 0; base < p.seqs && before <= int(blockIdx.x); base += kWarp) {
      const int seq = base + lane;
      const int tiles =
          seq < p.seqs ? (p.first[seq + 1] - p.first[seq] + kTileTokens - 1) / kTileTokens : 0;
      int sum = tiles;
#pragma unroll
      for (int other = 1; other < kWarp; other *= 2) {
        const int theirs = __shfl_up_sync(~0u, sum, other);
        if (lane >= other) sum += theirs;
      }
      const int tile = int(blockIdx.x) - before - (sum - tiles);
      if (tile >= 0 && tile < tiles) found[0] = seq, found[1] = tile;
      before += __shfl_sync(~0u, sum, kWarp - 1);
    }
  }
  __syncthreads();
  const int seq = found[0];
  if (seq < 0) return;
  // The longest tiles first: they see the most keys.
  const int count = p.first[seq + 1] - p.first[seq];
  const int tile = (count + kTileTokens - 1) / kTileTokens - 1 - found[1];
  const int token0 = p.first[seq] + tile * kTileTokens;
  const int tokens = min(kTileTokens, p.first[seq + 1] - token0);
  const int position0 = p.positions[token0];
  const int kv_head = blockIdx.y, heads = p.heads / p.kv_heads;
  const int* table = p.page_table + int64_t(seq) * p.table_width;

  // Two tokens a warp; rows past the last repeat it and are not written.
  int token[2], position[2];
  uint32_t q[4][4] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int in_tile = min(2 * warp + r, tokens - 1);
    token[r] = token0 + in_tile, position[r] = position0 + in_tile;
    if (g < heads) {
      const Bf16* query =
          p.qkv + (int64_t(token[r]) * (p.heads + 2 * p.kv_heads) + kv_head * heads + g) * kDim;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        q[k][r] = *reinterpret_cast<const uint32_t*>(query + 16 * k + 2 * c);
        q[k][2 + r] = *reinterpret_cast<const uint32_t*>(query + 16 * k + 8 + 2 * c);
      }
    }
  }
  constexpr float kLog2E = 1.4426950408889634f;
  const float scale = p.scale * kLog2E;
  const float sink = g < heads ? p.sinks[kv_head * heads + g] * kLog2E : 0;
  float most[2] = {sink, sink}, total[2] = {c == 0 ? 1.f : 0.f, c == 0 ? 1.f : 0.f};
  float sum[8][4] = {};

  const auto load = [&](int page, int buffer) {
    const Bf16* from =
        p.pages + (int64_t(table[page]) * p.kv_heads + kv_head) * 2 * kPageSize * kDim;
#pragma unroll
    for (int i = threadIdx.x; i < 2 * kPageSize * 8; i += kTileWarps * kWarp) {
      const int part = i / (kPageSize * 8), key = i / 8 % kPageSize, chunk = i % 8;
      copy_async(&pages[buffer][part][key * 128 + (chunk ^ key % 8) * 16], from + i * 8);
    }
    copy_async_commit();
  };
  const int last_position = position0 + tokens - 1;
  const int first_page = max(0, position0 - p.window + 1) / kPageSize;
  const int last_page = last_position / kPageSize;
  load(first_page, first_page % 2);
  for (int page = first_page; page <= last_page; ++page) {
    if (page < last_page) {
      load(page + 1, (page + 1) % 2);
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
    __syncthreads();
    const uint32_t keys = shared_address(pages[page % 2][0]);
    const uint32_t values = shared_address(pages[page % 2][1]);

    // Values past the last token may be anything, and 0 times NaN is NaN.
    if (page == last_page && last_position % kPageSize != kPageSize - 1) {
      for (int i = threadIdx.x; i < kPageSize * 8; i += kTileWarps * kWarp)
        if (page * kPageSize + i / 8 > last_position)
          *reinterpret_cast<uint4*>(&pages[page % 2][1][i * 16]) = make_uint4(0, 0, 0, 0);
      __syncthreads();
    }

    float score[8][4] = {};
#pragma unroll
    for (int i = 0; i < 8; i += 2)  // 16 keys
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        uint32_t b[4];  // keys 8i.. at dims 16k.. and 16k + 8.., then the next eight keys
        const int key = 8 * i + lane / 16 * 8 + lane % 8, chunk = 2 * k + lane / 8 % 2;
        load_matrices(b, keys + key * 128 + (chunk ^ key % 8) * 16);
        mma_bf16(score[i], q[k][0], q[k][1], q[k][2], q[k][3], b[0], b[1]);
        mma_bf16(score[i + 1], q[k][0], q[k][1], q[k][2], q[k][3], b[2], b[3]);
      }

    const bool edge =
        (page + 1) * kPageSize > position0 + 1 || page * kPageSize <= last_position - p.window;
    float largest[2] = {most[0], most[1]};
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        score[i][j] *= scale;
        if (edge) {
          const int key = page * kPageSize + 8 * i + 2 * c + j % 2;
          if (key > position[j / 2] || key <= position[j / 2] - p.window) score[i][j] = -INFINITY;
        }
        largest[j / 2] = fmaxf(largest[j / 2], score[i][j]);
      }
    float shrink[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = fmaxf(largest[r], __shfl_xor_sync(~0u, largest[r], 1));
      largest[r] = fmaxf(largest[r], __shfl_xor_sync(~0u, largest[r], 2));
      shrink[r] = exp2_approx(most[r] - largest[r]);  // finite: there is a sink
      most[r] = largest[r];
      total[r] *= shrink[r];
    }
    uint32_t weights[8][2];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        score[i][j] = exp2_approx(score[i][j] - most[j / 2]);
        total[j / 2] += score[i][j];
      }
      weights[i][0] = pack_bf16(score[i][0], score[i][1]);
      weights[i][1] = pack_bf16(score[i][2], score[i][3]);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[i][j] *= shrink[j / 2];
#pragma unroll
    for (int k = 0; k < 4; ++k)  // 16 keys
#pragma unroll
      for (int i = 0; i < 8; i += 2) {
        uint32_t b[4];  // keys 16k.. and 16k + 8.. at dims 8i.., then at the next eight
        const int key = 16 * k + lane / 8 % 2 * 8 + lane % 8, chunk = i + lane / 16;
        load_matrices_transposed(b, values + key * 128 + (chunk ^ key % 8) * 16);
        mma_bf16(sum[i], weights[2 * k][0], weights[2 * k][1], weights[2 * k + 1][0],
                 weights[2 * k + 1][1], b[0], b[1]);
        mma_bf16(sum[i + 1], weights[2 * k][0], weights[2 * k][1], weights[2 * k + 1][0],
                 weights[2 * k + 1][1], b[2], b[3]);
      }
    __syncthreads();  // before the next page takes this buffer
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    total[r] += __shfl_xor_sync(~0u, total[r], 1);
    total[r] += __shfl_xor_sync(~0u, total[r], 2);
    if (g >= heads || 2 * warp + r >= tokens) continue;
    Bf16* y = p.y + (int64_t(token[r]) * p.heads + kv_head * heads + g) * kDim;
    const float inverse = 1 / total[r];
#pragma unroll
    for (int i = 0; i < 8; ++i)
      *reinterpret_cast<uint32_t*>(y + 8 * i + 2 * c) =
          pack_bf16(sum[i][2 * r] * inverse, sum[i][2 * r + 1] * inverse);
  }
}

void tile(Stream& stream, const Attend& op, const Params<Bf16, Bf16>& params) {
  const int most_tiles = op.batch->tokens / kTileTokens + op.batch->seqs;
  launch<tile_kernel>("attend",
                      {.blocks = dim3(unsigned(most_tiles), unsigned(params.kv_heads)),
                       .threads = kTileWarps * kWarp},
                      stream, params);
}

}  // namespace

void attend(Stream& stream, const Attend& op) {
  Dim tokens("tokens", op.batch->tokens), seqs("seqs", op.batch->seqs), width("page table width");
  Dim pages("pages"), kv_heads("kv_heads"), two("keys and values", 2), heads("heads", op.heads);
  Dim page("page_size head_dim", kPageSize * op.head_dim);
  Dim q("heads head_dim", op.heads * op.head_dim);
  shape_check("attend", op.kv.pages, "kv.pages", {&pages, &kv_heads, &two, &page});
  Dim all("(heads + 2 kv_heads) head_dim", (op.heads + 2 * kv_heads) * op.head_dim);
  shape_check("attend", op.y, "y", {&tokens, &q});
  shape_check("attend", op.qkv, "qkv", {&tokens, &all});
  shape_check("attend", op.sinks, "sinks", {&heads});
  shape_check("attend", op.batch->positions, "positions", {&tokens});
  shape_check("attend", op.batch->sequence, "sequence", {&tokens});
  const Tensor& table = op.batch->pages[int(op.kv.pool)];
  shape_check("attend", table, "page table", {&seqs, &width});
  ROSE_CHECK(op.heads % kv_heads == 0, "attend: %d heads on %ld kv heads", op.heads,
             long(kv_heads));
  ROSE_CHECK(op.head_dim <= kMaxHeadDim, "attend: head_dim %d, at most %d", op.head_dim,
             kMaxHeadDim);
  if (tokens == 0) return;

  with_type_of(op.qkv, "attend", [&]<class T>(T) {
    with_type_of(op.kv.pages, "attend", [&]<class K>(K) {
      const Params<T, K> params = {.y = elements<T>(op.y),
                                   .qkv = elements<T>(op.qkv),
                                   .pages = elements<K>(op.kv.pages),
                                   .positions = op.batch->positions.as<int>(),
                                   .sequence = op.batch->sequence.as<int>(),
                                   .page_table = table.as<int>(),
                                   .sinks = op.sinks.as<float>(),
                                   .parts = nullptr,
                                   .first = op.batch->first.as<int>(),
                                   .seqs = op.batch->seqs,
                                   .table_width = int(width),
                                   .window = op.window,
                                   .heads = op.heads,
                                   .kv_heads = int(kv_heads),
                                   .head_dim = op.head_dim,
                                   .splits = 1,
                                   .scale = op.scale};
      if constexpr (std::is_same_v<T, Bf16> && std::is_same_v<K, Bf16>)
        if (op.head_dim == kDim) {
          const bool prompts = tokens >= 4 * seqs && heads <= kHeads * kv_heads;
          return prompts ? tile(stream, op, params) : split(stream, op, params);
        }
      launch<plain_kernel<T, K>>(
          "attend", {.blocks = dim3(unsigned(tokens), unsigned(heads)), .threads = kWarp}, stream,
          params);
    });
  });
}

}  // namespace rose::cuda
