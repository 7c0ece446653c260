// The sampler of the reference (sample.h, sample.cc). A row belongs to a cluster of blocks, each of which
// keeps its share of the vocabulary in shared memory: the logits are read once, and a pass over them costs
// a microsecond. Nothing is ever sorted: filters find the key of the last token they keep, a byte at a time,
// from counts or sums of the tokens that share the bytes so far. Weights are summed as whole numbers, so
// that the order of additions changes nothing. docs/kernels/sample.md
#include "kernels/sample/sample.h"

#include <cooperative_groups.h>

#include "base/rng.h"
#include "device/launch.cuh"
#include "device/ptx.cuh"
#include "device/warp.cuh"
#include "kernels/cuda.h"

namespace rose::cuda {

namespace {

constexpr int kBlocks = 8;  // of a cluster, which samples a row
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;
constexpr float kNever = -INFINITY;
constexpr float kMost = 3.402823466e38f;

struct Params {
  int* tokens;          // [rows]
  const float* logits;  // [rows, columns]
  const SampleRow* rows;
  int columns, vocab;
};

// --- sums over the cluster, in every thread of it ------------------------------------------

template <class T, class Combine>
__device__ T cluster_reduce(T x, const Combine& combine) {
  __shared__ T of_warp[kWarps], of_block;
#pragma unroll
  for (int other = kWarp / 2; other > 0; other /= 2) x = combine(x, __shfl_xor_sync(~0u, x, other));
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kWarps; ++warp) x = combine(x, of_warp[warp]);
    of_block = x;
  }
  const auto cluster = cooperative_groups::this_cluster();
  cluster.sync();
  x = *cluster.map_shared_rank(&of_block, 0);
  for (int block = 1; block < kBlocks; ++block)
    x = combine(x, *cluster.map_shared_rank(&of_block, block));
  cluster.sync();  // before the next one writes
  return x;
}
__device__ uint64_t cluster_total(uint64_t x) {
  return cluster_reduce(x, [](uint64_t a, uint64_t b) { return a + b; });
}
__device__ double cluster_total(double x) {
  return cluster_reduce(x, [](double a, double b) { return a + b; });
}
__device__ uint64_t cluster_largest(uint64_t x) {
  return cluster_reduce(x, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
}

// --- the order of tokens ------------------------------------------------------------------

// Larger values first, then lower ids. 0 is no token.
__device__ uint64_t key_of(float value, int token) {
  const uint32_t bits = __float_as_uint(value + 0.0f);
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return uint64_t(ordered) << 32 | uint32_t(~token);
}
__device__ int token_of(uint64_t key) { return int(~uint32_t(key)); }

// This block's tokens: [first, first + count), their values in shared memory.
struct Share {
  float* values;
  int first, count;

  __device__ bool has(int token) const { return token >= first && token < first + count; }
  template <class Body>
  __device__ void each(const Body& body) const {
    for (int i = threadIdx.x; i < count; i += kThreads) body(values[i], first + i);
  }
};

// The first token of the order that is possible and comes after `before`; key 0 where there is none.
__device__ uint64_t next_largest(const Share& share, uint64_t before) {
  uint64_t best = 0;
  share.each([&](float value, int token) {
    if (value == kNever) return;
    const uint64_t key = key_of(value, token);
    if (key < before && key > best) best = key;
  });
  return cluster_largest(best);
}

// The key of the last token to keep, if tokens are kept in order until `measure` of them adds up to
// `wanted` or more. Keys are 64 bits: eight bytes, each found from a histogram of those whose higher
// bytes match. Of all tokens together: at least one has measure > 0.
template <class Measure>
__device__ uint64_t last_kept(const Share& share, uint64_t wanted, uint64_t floor,
                              const Measure& measure) {
  __shared__ unsigned long long bins[256], sums[256];
  __shared__ uint64_t found, left;
  const auto cluster = cooperative_groups::this_cluster();
  if (threadIdx.x == 0) found = 0, left = wanted;
  for (int shift = 56; shift >= 0; shift -= 8) {
    if (threadIdx.x < 256) bins[threadIdx.x] = 0;
    __syncthreads();
    const uint64_t prefix = found;
    share.each([&](float value, int token) {
      const uint64_t key = key_of(value, token);
      if (key < floor || (shift < 56 && key >> (shift + 8) != prefix >> (shift + 8))) return;
      const uint64_t part = measure(value);
      if (part > 0) atomicAdd(&bins[key >> shift & 255], static_cast<unsigned long long>(part));
    });
    cluster.sync();
    if (threadIdx.x < 256) {
      unsigned long long sum = 0;
      for (int block = 0; block < kBlocks; ++block)
        sum += cluster.map_shared_rank(bins, block)[threadIdx.x];
      sums[threadIdx.x] = sum;
    }
    cluster.sync();
    if (threadIdx.x == 0) {
      int last = 0;
      for (int bin = 255; bin >= 0; --bin) {
        if (sums[bin] == 0) continue;
        last = bin;
        if (sums[bin] >= left) break;
        left -= sums[bin];
      }
      found |= uint64_t(last) << shift;
    }
    __syncthreads();
  }
  return found;
}

// --- one row ---------------------------------------------------------------------------------

__device__ bool possible(const SampleRow& row, int token, float logit) {
  return !isnan(logit) && (!row.allowed || (row.allowed[token / 32] >> (token % 32) & 1) != 0);
}

// The logits of this share, cleaned; returns the key of the largest of the row.
__device__ uint64_t read_logits(const SampleRow& row, const float* logits, const Share& share,
                                bool keep) {
  uint64_t best = 0;
  const auto take = [&](int i, float x) {
    const int token = share.first + i;
    x = possible(row, token, x) ? fminf(x, kMost) : kNever;  // +inf: the largest number
    if (keep) share.values[i] = x;
    if (x != kNever) best = max(best, key_of(x, token));
  };
  logits += share.first;
  if (reinterpret_cast<uintptr_t>(logits) % 16 == 0) {
    const int quads = share.count / 4;
#pragma unroll 4
    for (int i = threadIdx.x; i < quads; i += kThreads) {
      const float4 x = __ldcg(reinterpret_cast<const float4*>(logits) + i);
      take(4 * i, x.x), take(4 * i + 1, x.y), take(4 * i + 2, x.z), take(4 * i + 3, x.w);
    }
    for (int i = 4 * quads + threadIdx.x; i < share.count; i += kThreads) take(i, logits[i]);
  } else {
    for (int i = threadIdx.x; i < share.count; i += kThreads) take(i, logits[i]);
  }
  if (keep && !row.banned.empty()) {
    __syncthreads();
    for (size_t i = threadIdx.x; i < row.banned.size(); i += kThreads)
      if (share.has(row.banned[i])) share.values[row.banned[i] - share.first] = kNever;
    __syncthreads();
    return next_largest(share, ~uint64_t(0));
  }
  return cluster_largest(best);
}

// A token may stand in the list of biases twice, so one thread adds them.
__device__ void penalise(const SampleRow& row, const Share& share) {
  __syncthreads();
  if (threadIdx.x == 0)
    for (const TokenBias& bias : row.bias)
      if (share.has(bias.token)) share.values[bias.token - share.first] += bias.bias;
  __syncthreads();
  for (size_t i = threadIdx.x; i < row.counts.size(); i += kThreads) {
    const TokenCount count = row.counts[i];
    if (!share.has(count.token)) continue;
    float& value = share.values[count.token - share.first];
    float logit = value;
    if (count.in_prompt || count.generated > 0)
      logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
    if (count.generated > 0)
      logit -= row.presence_penalty + row.frequency_penalty * float(count.generated);
    value = isnan(logit) ? kNever : fminf(logit, kMost);
  }
  __syncthreads();
}

// Weights are at most 1, so that those of a whole vocabulary fit.
__device__ uint64_t whole(float weight) { return __double2ull_rn(double(weight) * 0x1p40); }

// The token at which the sum of the weights, in the order of ids, passes a random share of the whole.
__device__ int draw(const SampleRow& row, const Share& share, int vocab, float most) {
  // Logits become weights in place.
  for (int i = threadIdx.x; i < share.count; i += kThreads)
    share.values[i] = expf(float((double(share.values[i]) - most) / double(row.temperature)));
  __syncthreads();

  uint64_t floor = 1;  // the smallest key that is kept
  if (row.top_k > 0 && row.top_k < vocab)
    floor = last_kept(share, uint64_t(row.top_k), floor,
                      [](float weight) { return uint64_t(weight > 0 ? 1 : 0); });
  if (row.min_p > 0) {
    // The largest weight is 1. The last id has the smallest key of a value.
    const uint64_t bound = key_of(fminf(row.min_p, 1), -2) & ~uint64_t(0xffffffff);
    if (bound > floor) floor = bound;
  }
  if (row.top_p < 1) {
    uint64_t mine = 0;
    share.each([&](float weight, int token) {
      if (key_of(weight, token) >= floor) mine += whole(weight);
    });
    const double total = double(cluster_total(mine));
    // All those under this weight together are less than what top-p leaves out: no need to order them.
    const float least = float(0.5 * (1 - double(row.top_p)) * total * 0x1p-40 / vocab);
    const uint64_t bound = key_of(least, -1);
    floor = last_kept(share, uint64_t(double(row.top_p) * total), bound > floor ? bound : floor,
                      [](float weight) { return whole(weight); });
  }

  // Each thread adds up neighbours; an odd number of them, so that a warp meets all banks.
  const int each = ((share.count + kThreads - 1) / kThreads) | 1;
  const int begin = threadIdx.x * each, end = min(share.count, begin + each);
  const auto weight_of = [&](int i) {
    const float weight = share.values[i];
    return key_of(weight, share.first + i) >= floor ? whole(weight) : uint64_t(0);
  };
  uint64_t mine = 0;
  for (int i = begin; i < end; ++i) mine += weight_of(i);
  __shared__ uint64_t sums[kThreads + 1];  // of all threads before
  __shared__ uint64_t of_block;
  __shared__ int drawn;
  if (threadIdx.x == 0) drawn = -1;
  uint64_t before = mine;
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const uint64_t other = __shfl_up_sync(~0u, before, step);
    if (lane >= step) before += other;
  }
  __shared__ uint64_t of_warp[kWarps];
  if (lane == kWarp - 1) of_warp[threadIdx.x / kWarp] = before;
  __syncthreads();
  for (int warp = 0; warp < int(threadIdx.x) / kWarp; ++warp) before += of_warp[warp];
  sums[threadIdx.x + 1] = before;
  if (threadIdx.x == kThreads - 1) of_block = before;
  const auto cluster = cooperative_groups::this_cluster();
  cluster.sync();
  uint64_t all = 0, blocks_before = 0;
  for (int block = 0; block < kBlocks; ++block) {
    const uint64_t sum = *cluster.map_shared_rank(&of_block, block);
    if (block < int(cluster.block_rank())) blocks_before += sum;
    all += sum;
  }
  // random_unit has 24 bits: target = floor(all x).
  const uint64_t random = random_bits(row.seed, row.position) >> 40;
  const uint64_t target = __umul64hi(all << 4, random << 36);
  before = blocks_before + sums[threadIdx.x + 1] - mine;
  if (target >= before && target - before < mine) {  // one thread of the cluster
    int i = begin;
    for (uint64_t passed = before + weight_of(i); passed <= target; passed += weight_of(i)) ++i;
    *cluster.map_shared_rank(&drawn, 0) = share.first + i;
  }
  cluster.sync();
  const int token = *cluster.map_shared_rank(&drawn, 0);
  cluster.sync();  // before it ends
  return token;
}

//   grid   kBlocks, rows
__global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads)
    sample_kernel(const __grid_constant__ Params p) {
  extern __shared__ float values[];
  const SampleRow row = p.rows[blockIdx.y];  // no kernel writes it
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (row.later) return;

  const int each = ((p.columns + kBlocks - 1) / kBlocks + 3) & ~3;
  const int first = min(p.vocab, int(blockIdx.x) * each);
  const Share share = {values, first, min(p.vocab, first + each) - first};
  const float* logits = p.logits + int64_t(blockIdx.y) * p.columns;
  const bool lists = !row.bias.empty() || !row.counts.empty();
  const bool keep = lists || !row.banned.empty() || row.temperature > 0 || row.logprobs >= 0;
  Sampled* result = blockIdx.x == 0 && threadIdx.x == 0 ? row.result : nullptr;

  uint64_t best = read_logits(row, logits, share, keep);
  int token = best == 0 ? -1 : token_of(best);
  int tops = 0;
  double log_total = 0;
  if (token >= 0 && row.logprobs >= 0) {
    const float most = logits[token];
    double mine = 0;
    __syncthreads();
    share.each([&](float value, int) { mine += exp(double(value) - double(fminf(most, kMost))); });
    log_total = double(fminf(most, kMost)) + log(cluster_total(mine));
    uint64_t before = ~uint64_t(0);
    for (; tops < min(row.logprobs, kMaxLogprobs); ++tops) {
      before = next_largest(share, before);
      if (before == 0) break;
      const float own = fminf(logits[token_of(before)], kMost);
      if (result) result->top[tops] = {token_of(before), float(double(own) - log_total)};
    }
  }
  if (token >= 0 && lists) {
    penalise(row, share);
    best = next_largest(share, ~uint64_t(0));
    token = best == 0 ? -1 : token_of(best);
  }
  if (token >= 0 && row.temperature > 0) {
    const uint32_t ordered = uint32_t(best >> 32);
    const float most = __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
    __syncthreads();
    token = draw(row, share, p.vocab, most);
  }
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  p.tokens[blockIdx.y] = token;
  if (!result) return;
  result->token = token;
  result->logprob =
      token >= 0 && row.logprobs >= 0 ? float(double(fminf(logits[token], kMost)) - log_total) : 0;
  result->tops = token >= 0 ? tops : 0;
}

}  // namespace

void sample(Stream& stream, const Sample& op) {
  Dim rows("rows"), columns("columns");
  shape_check("sample", op.logits, "logits", {&rows, &columns});
  shape_check("sample", op.tokens, "tokens", {&rows});
  ROSE_CHECK(op.vocab <= columns, "sample: vocab %d, %ld columns", op.vocab, long(columns));
  if (rows == 0) return;
  const int64_t share = (columns + kBlocks - 1) / kBlocks + 3;
  launch<sample_kernel>("sample",
                        {.blocks = dim3(kBlocks, unsigned(rows)),
                         .threads = kThreads,
                         .shared_bytes = int(share * int64_t(sizeof(float)))},
                        stream,
                        Params{.tokens = op.tokens.as<int>(),
                               .logits = op.logits.as<float>(),
                               .rows = op.rows,
                               .columns = int(columns),
                               .vocab = op.vocab});
}

}  // namespace rose::cuda
