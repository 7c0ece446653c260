// Decoding: the keys of a token split over blocks and warps.
#include <algorithm>
#include <utility>

#include "device/arena.h"
#include "kernels/attend/split_parts.cuh"
#include "kernels/rope_store/turn.cuh"

namespace rose::cuda {

namespace {

constexpr int kMaxItems = 1 << 16;

// Splits that have written their part, of each token and group of heads. The last sets it back to 0.
__device__ int arrived[kMaxItems];

// The keys of a token are split over blocks, those of a block over its warps, 16 at a time; a warp asks for those of
// kDeep - 1 turns ahead. Warps meet in shared memory, blocks in `parts`, where the last to arrive adds them up in
// the order of splits.
//
// With p.inverse_frequency the query is rotated here, and the token's own key, which then never comes
// from the page.
//
//   parts  [tokens, groups of heads, splits, {kHeads kDim values, kHeads largest, kHeads totals}]  f32
//   grid   splits, kv_heads x groups of kHeads heads, tokens
//   needs  head_dim 64; pages and qkv aligned to 16 bytes; to rotate: sequences that feed one token each
template <int kWarps, int kDeep>
__global__ void __launch_bounds__(kWarps* kWarp)
    split_kernel(const __grid_constant__ AttendParams<Bf16, Bf16> p) {
  __shared__ SplitShared<kWarps> shared;
  __shared__ float2 turns[kDim / 2];
  __shared__ Fresh fresh;
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
  Keys held[kDeep];  // of a step and those after it
  int turn = 0, step = begin + warp;
  const int known = p.positions[p.first[p.sequence[token]]];  // keys before this step
  const auto load = [&](Keys& keys, int at) {
    keys.load(page(turn++, at), at * kKeys % kPageSize, g, c);
  };
  int loaded = 0;
#pragma unroll
  for (int i = 0; i < kDeep - 1; ++i) {
    const int at = step + i * kWarps;
    if (loaded == i && at < end && (at + 1) * kKeys <= known) load(held[i], at), ++loaded;
  }
  if (p.inverse_frequency && threadIdx.x < kDim / 2)
    turns[threadIdx.x] = turn_of<Bf16>(position, p.inverse_frequency[threadIdx.x], p.concentration);
  wait_for_previous_kernel();
  let_next_kernel_start();
#pragma unroll
  for (int i = 0; i < kDeep - 1; ++i)
    if (i >= loaded && step + i * kWarps < end) load(held[i], step + i * kWarps);
  uint4 q[2] = {};
  if (g < heads) {
    const Bf16* query =
        p.qkv + (int64_t(token) * (p.heads + 2 * p.kv_heads) + first_head + g) * kDim + 8 * c;
    q[0] = *reinterpret_cast<const uint4*>(query);
    q[1] = *reinterpret_cast<const uint4*>(query + 32);
  }
  // The split that holds the token's own key puts it into the page, for the steps to come.
  const int own = p.inverse_frequency && begin < end && end == first_step + steps ? end - 1 : -1;
  if (p.inverse_frequency) {
    OwnKey key;
    if (own >= 0 && threadIdx.x < kOwnThreads)
      key.load(threadIdx.x, p.heads, p.kv_heads, kv_head, [&](int i) {
        const Bf16* qkv = p.qkv + int64_t(token) * (p.heads + 2 * p.kv_heads) * kDim;
        return *reinterpret_cast<const uint4*>(qkv + i);
      });
    __syncthreads();  // the turns
    rotate(q[0], q[1], turns + 8 * c);
    if (own >= 0) {
      if (threadIdx.x < kOwnThreads)
        key.keep(threadIdx.x, turns, fresh,
                 p.pages + (int64_t(table[position / kPageSize]) * p.kv_heads + kv_head) * 2 *
                               kPageSize * kDim,
                 position % kPageSize);
      __syncthreads();
    }
  }
  while (step < end)
#pragma unroll
    for (int i = 0; i < kDeep && step < end; ++i, step += kWarps) {
      const int ahead = step + (kDeep - 1) * kWarps;
      if (ahead < end) load(held[(i + kDeep - 1) % kDeep], ahead);
      Keys& now = held[i];
      if (step == own) fresh.put(now, position % kKeys, g, c);
      now.clear_outside(step * kKeys, from, position, c);
      run.add(now, q, step * kKeys, from, position, p.scale * kLog2E, c);
    }

  const int64_t item = int64_t(token) * gridDim.y + blockIdx.y;
  finish_split(threadIdx.x, shared, run,
               SplitOf{.split = split,
                       .splits = p.splits,
                       .heads = heads,
                       .parts = p.parts + item * p.splits * kPart,
                       .arrived = &arrived[item],
                       .y = p.y + (int64_t(token) * p.heads + first_head) * kDim},
               [] { __syncthreads(); });
}

}  // namespace

void attend_split(Stream& stream, const Attend& op, AttendParams<Bf16, Bf16> params) {
  const int tokens = op.batch->tokens, group = params.heads / params.kv_heads;
  const int groups = params.kv_heads * ((group + kHeads - 1) / kHeads);
  // As many blocks as run at once, but no split for less than 64 keys.
  const int items = tokens * groups;
  const auto go = [&]<int kWarps, int kDeep>(std::integer_sequence<int, kWarps, kDeep>) {
    const int longest = std::min<int64_t>(op.window, int64_t(params.table_width) * kPageSize);
    const int at_once = resident_blocks<split_kernel<kWarps, kDeep>>("attend", kWarps * kWarp, 0);
    params.splits = std::clamp(std::min(at_once / items, longest / kPageSize), 1, kMaxSplits);
    if (items > kMaxItems || op.window <= 256) params.splits = 1;
    if (params.splits > 1)
      params.parts =
          stream.scratch->take(DType::f32, {tokens, groups, params.splits, kPart}).as<float>();
    const dim3 blocks(unsigned(params.splits), unsigned(groups), unsigned(tokens));
    launch<split_kernel<kWarps, kDeep>>("attend", {.blocks = blocks, .threads = kWarps * kWarp},
                                        stream, params);
  };
  // Few items: more warps a block, so that none waits for memory more than once. More, but few waves of them: each
  // warp asks further ahead, though fewer blocks fit then.
  if (items <= multiprocessors())
    go(std::integer_sequence<int, 8, 2>());
  else if (items <= 4 * multiprocessors())
    go(std::integer_sequence<int, 4, 3>());
  else
    go(std::integer_sequence<int, 4, 2>());
}

}  // namespace rose::cuda
