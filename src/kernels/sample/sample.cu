// The sampler of the reference (sample.h, sample.cc). A row belongs to a cluster of blocks, which keep it in
// shared memory: the logits are read once, and a pass over them costs half a microsecond (share.cuh). They
// become weights in place (weights.cuh), of which one is drawn (draw.cuh). docs/kernels/sample.md
#include "kernels/sample/sample.h"

#include "base/rng.h"
#include "device/launch.cuh"
#include "device/order.cuh"
#include "device/ptx.cuh"
#include "kernels/cuda.h"
#include "kernels/sample/draw.cuh"

namespace rose::cuda {

namespace {

constexpr float kNever = -INFINITY;
constexpr float kMost = 3.402823466e38f;

// So many rows leave room for clusters of 16 blocks; more are quicker through in clusters of 8.
constexpr int kFewRows = 4;

struct Params {
  int* tokens;          // [rows]
  const float* logits;  // [rows, columns]
  const SampleRow* rows;
  int columns, vocab;
};

// --- the order of logits ------------------------------------------------------------------

// 0 is no token.
__device__ uint64_t key_if_possible(float value, int token) {
  return value == kNever ? 0 : key_of(value, token);
}
constexpr uint64_t kBeforeAll = ~uint64_t(0);

// The first token of the order that is possible and comes after `before`; key 0 where there is none.
template <int kBlocks>
__device__ uint64_t next_largest(const Share& share, Cluster<kBlocks>& cluster, uint64_t before) {
  uint64_t best = 0;
  share.each([&](float value, int token) {
    const uint64_t key = key_if_possible(value, token);
    if (key < before && key > best) best = key;
  });
  return cluster.largest(best);
}

// --- one row ---------------------------------------------------------------------------------

// NaN and what may not be sampled are -inf, +inf is the largest number.
__device__ float comparable(float x, bool possible = true) {
  return possible && !isnan(x) ? fminf(x, kMost) : kNever;
}

// All logits become comparable. Returns the key of the largest of the row.
template <int kBlocks>
__device__ uint64_t read_logits(const SampleRow& row, const float* logits, const Share& share,
                                Cluster<kBlocks>& cluster) {
  for (int quad = share.begin + threadIdx.x % kWarp; quad < share.end; quad += kWarp) {
    const int token = share.first + 4 * quad;
    if (share.exists(token) && share.exists(token + 3)) {
      copy_async(share.quads + quad, logits + token);
      continue;
    }
    for (int i = 0; i < 4; ++i) {  // at the ends of the row: what is none of its tokens is NaN
      float* const x = reinterpret_cast<float*>(share.quads + quad) + i;
      *x = share.exists(token + i) ? logits[token + i] : NAN;
    }
  }
  copy_async_commit();
  copy_async_wait<0>();
  const uint32_t* const allowed = row.allowed;
  float most = kNever;
  int token_of_most = 0;
  share.change([&](float& x, int token) {
    const bool allows =  // what is no token is NaN
        !allowed || isnan(x) || (allowed[token / 32] >> (token % 32) & 1) != 0;
    x = comparable(x, allows);
    if (x > most) most = x, token_of_most = token;
  });
  if (row.banned.empty()) return cluster.largest(key_if_possible(most, token_of_most));

  __syncthreads();
  for (size_t i = threadIdx.x; i < row.banned.size(); i += kThreads)
    if (float* const x = share.find(row.banned[i])) *x = kNever;
  __syncthreads();
  return next_largest(share, cluster, kBeforeAll);
}

// A token may stand in the list of biases twice, so one thread adds them.
__device__ void penalise(const SampleRow& row, const Share& share) {
  __syncthreads();
  if (threadIdx.x == 0)
    for (const TokenBias& bias : row.bias)
      if (float* const x = share.find(bias.token)) *x = comparable(*x + bias.bias);
  __syncthreads();
  for (size_t i = threadIdx.x; i < row.counts.size(); i += kThreads) {
    const TokenCount count = row.counts[i];
    float* const x = share.find(count.token);
    if (!x) continue;
    float logit = *x;
    if (count.in_prompt || count.generated > 0)
      logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
    if (count.generated > 0)
      logit -= row.presence_penalty + row.frequency_penalty * float(count.generated);
    *x = comparable(logit);
  }
  __syncthreads();
}

// The logarithm of the sum of exp(logit), so that logit - this is a log-probability. Added up as multiples of
// 2^-44: the same however many blocks share the row.
template <int kBlocks>
__device__ double log_total(const Share& share, Cluster<kBlocks>& cluster, float most) {
  uint64_t mine = 0;
  share.each([&](float value, int) {
    mine += __double2ull_rn(exp(double(value) - double(most)) * 0x1p44);
  });
  return double(most) + log(double(cluster.total(mine)) * 0x1p-44);
}

// Logits become weights, the largest 1. Min-p is a bound on the weight itself.
__device__ void weigh(const SampleRow& row, const Share& share, float most) {
  const double colder = 1 / double(row.temperature);
  const float least = fminf(row.min_p, 1);
  share.change([&](float& x, int) {
    const float weight = expf(float((double(x) - double(most)) * colder));
    const uint32_t code = code_of(weight);
    x = __uint_as_float(weight >= least ? code : 0);
  });
}

// Top-k, then top-p of what that leaves.
template <int kBlocks>
__device__ Cut filter(const SampleRow& row, const Share& share, Cluster<kBlocks>& cluster) {
  const bool top_k = row.top_k > 0 && row.top_k < share.vocab, top_p = row.top_p < 1;
  Cut cut;
#pragma unroll 1  // the code of a search is there once
  for (int next = top_k ? 0 : 1; next <= int(top_p); ++next) {
    Measure measure = Measure::count;
    double part = 1;
    uint64_t most = uint64_t(row.top_k);
    if (next == 1) {
      measure = Measure::weight, part = double(row.top_p), most = ~uint64_t(0);
      if (top_k) most = uint64_t(part * double(kept_by(cut, share, cluster)));
    }
    cut = find_cut(share, cluster, measure, part, most);
  }
  return cut;
}

//   grid   kBlocks, rows
template <int kBlocks>
__global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(kThreads, 2)
    sample_kernel(const __grid_constant__ Params p) {
  extern __shared__ float4 quads[];
  __shared__ alignas(SampleRow) uint32_t words[sizeof(SampleRow) / sizeof(uint32_t)];
  if (threadIdx.x < sizeof(SampleRow) / sizeof(uint32_t))  // no kernel writes it
    words[threadIdx.x] = reinterpret_cast<const uint32_t*>(p.rows + blockIdx.y)[threadIdx.x];
  const SampleRow& row = reinterpret_cast<const SampleRow&>(words);
  const float* logits = p.logits + int64_t(blockIdx.y) * p.columns;
  const Share share(logits, p.vocab, kBlocks, quads);
  Cluster<kBlocks> cluster;
  wait_for_previous_kernel();
  let_next_kernel_start();
  __syncthreads();
  if (row.later) return;

  uint64_t best = read_logits(row, logits, share, cluster);
  Sampled* const result = row.result;
  const bool speaker = blockIdx.x == 0 && threadIdx.x == 0;
  int tops = 0;
  double total = 0;
  if (best != 0 && row.logprobs >= 0) {
    total = log_total(share, cluster, value_of(best));
    uint64_t next = best;
    for (; tops < min(row.logprobs, kMaxLogprobs) && next != 0; ++tops) {
      if (speaker && result)
        result->top[tops] = {id_of(next), float(double(value_of(next)) - total)};
      next = next_largest(share, cluster, next);
    }
  }
  if (best != 0 && (!row.bias.empty() || !row.counts.empty())) {
    penalise(row, share);
    best = next_largest(share, cluster, kBeforeAll);
  }
  int token = best != 0 ? id_of(best) : -1;
  bool mine = speaker;
  if (best != 0 && row.temperature > 0) {
    weigh(row, share, value_of(best));
    const Cut cut = filter(row, share, cluster);
    token = draw(share, cluster, cut, random_bits(row.seed, row.position) >> 40);
    mine = token >= 0;
  }
  if (mine) {
    p.tokens[blockIdx.y] = token;
    if (result) {
      result->token = token;
      result->logprob =
          token >= 0 && row.logprobs >= 0 ? float(double(fminf(logits[token], kMost)) - total) : 0;
      result->tops = token >= 0 ? tops : 0;
    }
  }
  cluster.meet();  // others may still read what this block told
}

template <int kBlocks>
void launch_sample(Stream& stream, const Params& params, int rows) {
  const int quads = (params.vocab + 3) / 4 + 1;  // a row may begin and end amid quads
  launch<sample_kernel<kBlocks>>(
      "sample",
      {.blocks = dim3(kBlocks, unsigned(rows)),
       .threads = kThreads,
       .shared_bytes = (quads + kBlocks - 1) / kBlocks * int(sizeof(float4))},
      stream, params);
}

}  // namespace

void sample(Stream& stream, const Sample& op) {
  Dim rows("rows"), columns("columns");
  shape_check("sample", op.logits, "logits", {&rows, &columns});
  shape_check("sample", op.tokens, "tokens", {&rows});
  ROSE_CHECK(op.vocab <= columns, "sample: vocab %d, %ld columns", op.vocab, long(columns));
  if (rows == 0) return;
  const Params params = {.tokens = op.tokens.as<int>(),
                         .logits = op.logits.as<float>(),
                         .rows = op.rows,
                         .columns = int(columns),
                         .vocab = op.vocab};
  if (rows <= kFewRows) {
    static const bool allowed = [] {  // clusters of more than eight: on request
      check(cudaFuncSetAttribute(sample_kernel<16>, cudaFuncAttributeNonPortableClusterSizeAllowed,
                                 1),
            "sample");
      return true;
    }();
    (void)allowed;
    launch_sample<16>(stream, params, int(rows));
  } else {
    launch_sample<8>(stream, params, int(rows));
  }
}

}  // namespace rose::cuda
