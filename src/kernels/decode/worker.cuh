// What the warps that work do in decode.cu: all of a layer but fetching its weights and waiting for other blocks.
//
//   qkv        residual stream + experts of the layer before -> norm -> product
//   attention  keys split over blocks and warps (attend/split_parts.cuh)
//   out        product
//   route      residual stream + that -> norm -> a block computes the logit of one expert
//   gate_up    product, activation
//   down       product
//
// Each ends in announce() and the next one goes on after await(). The residual stream and its norms are computed by every
// block for itself, which takes less time than handing them on.
#pragma once
#include "kernels/decode/grid_barrier.cuh"
#include "kernels/decode/state.cuh"
#include "kernels/experts/gated.cuh"
#include "kernels/rope_store/turn.cuh"

namespace rose::cuda {

namespace {

__device__ GridCounters grid_counters;
constexpr int kThreads = kWorkers + kWarpgroups * kWarp + kWarp;
using Barrier = GridBarrier<kWorkers>;

// threadIdx.x, but the compiler does not know: what follows from it is computed in each layer. Kept over the layers, it
// would take more registers than there are.
__device__ __forceinline__ int thread_anew() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// What the first kWorkers threads of a block do.
struct Worker {
  const DecodeParams& p;
  Shared& s;
  Multiplier weights;

  // Computed when needed: as members they would cost a register each.
  static __device__ __forceinline__ int warp() { return threadIdx.x / kWarp; }
  static __device__ __forceinline__ int lane() { return threadIdx.x % kWarp; }
  // Of the residual stream, the first of eight.
  static __device__ __forceinline__ int column() { return threadIdx.x * 8; }

  __device__ __forceinline__ bool has_columns() const { return column() < p.hidden; }

  // The residual stream, this thread's columns: each block has all of it.
  __device__ __forceinline__ uint4* residual() const {
    return reinterpret_cast<uint4*>(s.x + column());
  }
  // The block's share of these is 0 again.
  static __device__ __forceinline__ void clear(float* sums, int count) {
    for (int i = blockIdx.x * kWorkers + threadIdx.x; i < count; i += gridDim.x * kWorkers)
      sums[i] = 0;
  }

  struct Gain {
    float4 of[2] = {};
  };
  __device__ __forceinline__ Gain load_gain(const float* gain) const {
    Gain g;
    if (has_columns())
#pragma unroll
      for (int i = 0; i < 2; ++i)
        g.of[i] = *reinterpret_cast<const float4*>(gain + column() + 4 * i);
    return g;
  }

  // norm(x) of this thread's columns (rms_norm.h).
  __device__ __forceinline__ uint4 norm(const uint4& x, const Gain& gain) const {
    float square = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 v = halves((&x.x)[i]);
      square += v.x * v.x + v.y * v.y;
    }
    square = warp_sum(square);
    if (lane() == 0) s.warp_sums[warp()] = square;
    Barrier::sync_workers();
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWorkerWarps; ++w) total += s.warp_sums[w];
    const float scale = 1 / sqrtf(total / float(p.hidden) + p.eps);
    uint4 y;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 v = halves((&x.x)[i]);
      const float* by = &gain.of[i / 2].x + i % 2 * 2;
      (&y.x)[i] = pack_bf16(v.x * scale * by[0], v.y * scale * by[1]);
    }
    return y;
  }

  // A row of the block's groups, and what its sum is scaled by and added to.
  struct Row {
    bool exists = false;
    int choice = 0, row = 0;
    float scale = 0, bias = 0;
  };
  template <int kProduct>
  __device__ __forceinline__ Row row_of(int layer) const {
    const ProductShape& shape = p.shapes[kProduct];
    const ProductWeights& w = p.layer[layer].of[kProduct];
    const Plan::Block block = s.plan.block[kProduct];
    constexpr int kRows = group_rows(kProduct);
    Row r;
    if (threadIdx.x / kRows >= block.groups) return r;
    int group = block.group + threadIdx.x / kRows;
    r.choice = block.choice;
    if (group >= shape.groups) ++r.choice, group -= shape.groups;
    r.row = group * kRows + threadIdx.x % kRows;
    r.exists = r.row < shape.rows;
    if (!r.exists) return r;
    const int matrix = is_mxfp4(kProduct) ? s.chosen[r.choice] : 0;
    r.scale = w.scales[int64_t(matrix) * shape.groups * kRows + r.row];
    // Once, where a group is cut.
    if (threadIdx.x >= kRows || block.chunk == 0)
      r.bias = w.bias[int64_t(matrix) * shape.rows + r.row];
    return r;
  }
  template <int kProduct>
  __device__ __forceinline__ float result(const Row& r) const {
    constexpr int kRows = group_rows(kProduct);
    const float total = weights.total<kProduct>(threadIdx.x / kRows, threadIdx.x % kRows, s.sums);
    return total * r.scale + r.bias;
  }
  template <int kProduct>
  __device__ __forceinline__ void multiply() {
    weights.multiply<kProduct>(s.tokens, s.sums);
    Barrier::sync_workers();
  }

  __device__ __forceinline__ void qkv(int layer) {
    const Gain gain = load_gain(p.layer[layer].attention_gain);
    const Row row = row_of<kQkv>(layer);
    if (layer == 0)
      wait_for_previous_kernel();
    else
      Barrier::await();
    uint4 x = {};
    if (has_columns()) {
      x = layer > 0 ? *residual() : load_eight(p.x + column());
      if (layer > 0) {
        uint4 terms[kMaxTopK] = {};
#pragma unroll
        for (int k = 0; k < kMaxTopK; ++k)
          if (k < p.top_k) terms[k] = load_added(added.down[k] + column());
        float moved[8] = {};
#pragma unroll
        for (int k = 0; k < kMaxTopK; ++k)
          if (k < p.top_k)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const float2 v = halves((&terms[k].x)[i]);
              moved[2 * i] += s.weights[k] * v.x, moved[2 * i + 1] += s.weights[k] * v.y;
            }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float2 v = halves((&x.x)[i]);
          (&x.x)[i] =
              pack_bf16(v.x + rounded<Bf16>(moved[2 * i]), v.y + rounded<Bf16>(moved[2 * i + 1]));
        }
      }
      *residual() = x;
    }
    const uint4 normed = norm(x, gain);
    if (has_columns()) put_f16(s.tokens, column(), normed);
    Barrier::sync_workers();
    multiply<kQkv>();
    if (row.exists) atomicAdd(&added.qkv[row.row], result<kQkv>(row));
    Barrier::announce();
  }

  // A kv head's keys are split over blocks, those of a block over its warps, 16 at a time. A block takes no less than its
  // warps do at once.
  __device__ __forceinline__ void attention(int layer, int position) {
    const DecodeLayerParams& l = p.layer[layer];
    const int thread = thread_anew(), warp = thread / kWarp;
    const int g = thread % kWarp / 4, c = thread % 4;
    const int from = max(0, position - l.window + 1), first_step = from / kKeys;
    const int steps = position / kKeys - first_step + 1;
    const int most = min(kMaxSplits, int(gridDim.x) / p.kv_heads);
    const int splits = min(most, (steps + kWorkerWarps - 1) / kWorkerWarps);
    const int block = blockIdx.x, kv_head = block % p.kv_heads, split = block / p.kv_heads;
    if (split >= splits) return Barrier::await();

    const int per_split = (steps + splits - 1) / splits;
    const int begin = first_step + split * per_split;
    const int end = min(first_step + steps, begin + per_split);
    const int heads = p.heads / p.kv_heads, first_head = kv_head * heads;
    constexpr float kLog2E = 1.4426950408889634f;
    Running run;
    if (split == 0 && warp == 0 && g < heads) {
      run.most = l.sinks[first_head + g] * kLog2E;
      run.total = c == 0 ? 1 : 0;  // lanes add up at the end
    }
    const auto page_of = [&](int key) {
      return l.pages +
             (int64_t(l.page_table[key / kPageSize]) * p.kv_heads + kv_head) * 2 * kPageSize * kDim;
    };
    // Cleared, since what a load under a condition leaves of it would be kept over the layers.
    Keys keys = {};
    const auto load = [&](int step) {
      keys.load(page_of(step * kKeys), step * kKeys % kPageSize, g, c);
    };
    int step = begin + warp;
    const bool early = step < end && (step + 1) * kKeys <= position;
    if (early) load(step);  // no key of this step
    Barrier::await();
    if (!early && step < end) load(step);

    // One warp rotates the queries, another the token's own key.
    if (warp == 0 && g < heads) {
      const float* query = added.qkv + (first_head + g) * kDim + 8 * c;
      uint4 low = load_added(query), high = load_added(query + 32);
      rotate(low, high, s.turns + 8 * c);
      s.query[g][c] = low, s.query[g][c + 4] = high;
    }
    const int own = end == first_step + steps ? end - 1 : -1;
    if (own >= 0 && warp == 1 && thread < kWarp + kOwnThreads) {
      OwnKey key;
      key.load(thread - kWarp, p.heads, p.kv_heads, kv_head,
               [&](int i) { return load_added(added.qkv + i); });
      key.keep(thread - kWarp, s.turns, s.fresh, page_of(position), position % kPageSize);
    }
    Barrier::sync_workers();
    while (step < end) {
      if (step == own) s.fresh.put(keys, position % kKeys, g, c);
      keys.clear_outside(step * kKeys, from, position, c);
      const uint4 q[2] = {s.query[g][c], s.query[g][c + 4]};
      run.add(keys, q, step * kKeys, from, position, p.scale * kLog2E, c);
      step += kWorkerWarps;
      if (step < end) load(step);
    }
    finish_split(thread, s.split, run,
                 SplitOf{.split = split,
                         .splits = splits,
                         .heads = heads,
                         .parts = p.parts + int64_t(kv_head) * kMaxSplits * kPart,
                         .arrived = &splits_arrived[kv_head],
                         .y = p.attended + first_head * kDim},
                 [] { Barrier::sync_workers(); });
  }

  __device__ __forceinline__ void out(int layer) {
    const Row row = row_of<kOut>(layer);
    const int columns = p.heads * kDim;
    Barrier::await();
    for (int i = column(); i < columns; i += kWorkers * 8)
      put_f16(s.tokens, i, load_eight(p.attended + i));
    Barrier::sync_workers();
    clear(&added.down[0][0], kMaxTopK * kMaxHidden);  // all have read it
    multiply<kOut>();
    if (row.exists) atomicAdd(&added.out[row.row], result<kOut>(row));
    Barrier::announce();
  }

  // A block computes the logit of one expert; all norm the token, for the products to come.
  __device__ __forceinline__ void route(int layer) {
    const DecodeLayerParams& l = p.layer[layer];
    const Gain gain = load_gain(l.moe_gain);
    const bool routes = int(blockIdx.x) < p.experts;
    uint4 router = {};
    float bias = 0;
    if (routes && has_columns())
      router =
          *reinterpret_cast<const uint4*>(l.router + int64_t(blockIdx.x) * p.hidden + column());
    if (routes) bias = l.router_bias[blockIdx.x];
    Barrier::await();
    uint4 x = {};
    if (has_columns()) {
      x = *residual();
      const uint4 more = load_added(added.out + column());
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 a = halves((&x.x)[i]), b = halves((&more.x)[i]);
        (&x.x)[i] = pack_bf16(a.x + b.x, a.y + b.y);
      }
      *residual() = x;
      if (layer + 1 == p.layers && blockIdx.x == 0) *reinterpret_cast<uint4*>(p.x + column()) = x;
    }
    clear(added.qkv, kMaxQkv);
    const uint4 normed = norm(x, gain);
    put_e4m3(s.tokens, s.scales[0], column(), p.hidden, normed);
    if (routes) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 a = halves((&normed.x)[i]), b = halves((&router.x)[i]);
        sum += a.x * b.x + a.y * b.y;
      }
      sum = warp_sum(sum);
      Barrier::sync_workers();  // the sums of the norm have been read
      if (lane() == 0) s.warp_sums[warp()] = sum;
      Barrier::sync_workers();
      if (threadIdx.x == 0) {
        float total = 0;
#pragma unroll
        for (int w = 0; w < kWorkerWarps; ++w) total += s.warp_sums[w];
        p.logits[blockIdx.x] = rounded<Bf16>(total + bias);
      }
    }
    Barrier::announce();
  }

  // Rows 2i are gates, rows 2i + 1 ups.
  __device__ __forceinline__ void gate_up(int layer) {
    Barrier::await();
    clear(added.out, kMaxHidden);
    const Row row = row_of<kGateUp>(layer);
    weights.multiply_mxfp4<kGateUp>([&](int) { return s.tokens; }, [&](int) { return s.scales[0]; },
                                    s.sums);
    Barrier::sync_workers();
    const float mine = row.exists ? rounded<Bf16>(result<kGateUp>(row)) : 0;
    const float up = __shfl_down_sync(~0u, mine, 1);
    if (row.exists && row.row % 2 == 0)
      p.gated[row.choice * p.ffn + row.row / 2] =
          __float2bfloat16_rn(gated(mine, up, p.limit, p.alpha));
    Barrier::announce();
  }

  __device__ __forceinline__ void down(int layer) {
    const Row row = row_of<kDown>(layer);
    const Plan::Block block = s.plan.block[kDown];
    const int groups = p.shapes[kDown].groups;  // of a choice
    Barrier::await();
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (i * groups < block.group + block.groups) {
        uint4 a = {};
        if (column() < p.ffn) a = load_eight(p.gated + (block.choice + i) * p.ffn + column());
        put_e4m3(s.tokens + i * kMaxChunks * kTokenChunkBytes, s.scales[i], column(), p.ffn, a);
      }
    Barrier::sync_workers();
    const auto second = [&](int group) { return block.group + group >= groups; };
    weights.multiply_mxfp4<kDown>(
        [&](int group) { return s.tokens + second(group) * kMaxChunks * kTokenChunkBytes; },
        [&](int group) { return s.scales[second(group)]; }, s.sums);
    Barrier::sync_workers();
    if (row.exists) atomicAdd(&added.down[row.choice][row.row], result<kDown>(row));
    Barrier::announce();
  }

  __device__ __forceinline__ void run() {
    const int position = p.position[0];  // no kernel of this step writes it
    if (threadIdx.x < kTileDim / 2)
      s.turns[threadIdx.x] =
          turn_of<Bf16>(position, p.inverse_frequency[threadIdx.x], p.concentration);
    Barrier::sync_workers();  // the turns
    for (int layer = 0; layer < p.layers; ++layer) {
      qkv(layer);
      attention(layer, position);
      Barrier::announce();
      out(layer);
      route(layer);
      gate_up(layer);
      down(layer);
    }
    Barrier::await();
    for (int i = blockIdx.x * kWorkers + threadIdx.x; i < p.top_k * p.hidden;
         i += gridDim.x * kWorkers) {
      float& sum = added.down[i / p.hidden][i % p.hidden];
      p.rows[i] = __float2bfloat16_rn(__ldcg(&sum));
      sum = 0;
    }
  }
};

}  // namespace

}  // namespace rose::cuda
