// The sampler of the reference (sample.h, sample.cc), a block a row. A row of the vocabulary stays in L2,
// so that a pass over it costs a few microseconds; nothing is ever sorted: filters find the key of the
// last token they keep, a byte at a time, from counts or sums of the tokens that share the bytes so far.
#include "kernels/sample/sample.h"

#include <algorithm>
#include <cstring>

#include "base/rng.h"
#include "device/arena.h"
#include "device/launch.cuh"
#include "device/ptx.cuh"
#include "device/warp.cuh"
#include "kernels/cuda.h"

namespace rose::cuda {

namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarp;
constexpr float kNever = -INFINITY;
constexpr float kMost = 3.402823466e38f;

// A row's wishes, as the kernel reads them. Lists are parts of one array each.
struct Row {
  float temperature, top_p, min_p, presence, frequency, repetition;
  int top_k, logprobs;
  uint64_t seed, position;
  int bias_begin, bias_end, count_begin, count_end, banned_begin, banned_end;
  int allowed;  // words from the start of all masks; -1: none
};

struct Outcome {
  int token;
  float logprob;
  int tops;
  TokenLogprob top[kMaxLogprobs];
};

struct Params {
  Outcome* outcomes;  // [rows]
  float* logits;      // [rows, columns]
  float* own;         // [rows, columns] or null: no row wants log-probabilities
  const Row* rows;
  const TokenBias* bias;
  const TokenCount* counts;
  const int* banned;
  const uint32_t* allowed;
  int columns, vocab;
};

// --- a block's sums, in a fixed order ---------------------------------------------------

template <class T, class Combine>
__device__ T block_reduce(T x, const Combine& combine) {
  __shared__ T parts[kWarps];
#pragma unroll
  for (int other = kWarp / 2; other > 0; other /= 2) x = combine(x, __shfl_xor_sync(~0u, x, other));
  __syncthreads();
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = parts[threadIdx.x % kWarp];
#pragma unroll
  for (int other = kWarp / 2; other > 0; other /= 2) x = combine(x, __shfl_xor_sync(~0u, x, other));
  return x;
}
__device__ double block_total(double x) {
  return block_reduce(x, [](double a, double b) { return a + b; });
}
__device__ uint64_t block_largest(uint64_t x) {
  return block_reduce(x, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
}

// --- the order of tokens ------------------------------------------------------------------

// Larger values first, then lower ids. 0 is no token.
__device__ uint64_t key_of(float value, int token) {
  const uint32_t bits = __float_as_uint(value + 0.0f);
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return uint64_t(ordered) << 32 | uint32_t(~token);
}
__device__ int token_of(uint64_t key) { return int(~uint32_t(key)); }

// The first token of the order that is possible and comes after `before`; key 0 where there is none.
__device__ uint64_t next_largest(const float* values, int vocab, uint64_t before) {
  uint64_t best = 0;
  for (int i = threadIdx.x; i < vocab; i += kThreads) {
    if (values[i] == kNever) continue;
    const uint64_t key = key_of(values[i], i);
    if (key < before && key > best) best = key;
  }
  return block_largest(best);
}

// The key of the last token to keep, if tokens are kept in order until `measure` of them adds up to
// `wanted` or more. Keys are 64 bits: eight bytes, each found from a histogram of those whose higher
// bytes match. Of all tokens together: at least one has measure > 0.
template <class Measure>
__device__ uint64_t last_kept(const float* values, int vocab, double wanted, uint64_t floor,
                              const Measure& measure) {
  __shared__ double bins[256];
  __shared__ uint64_t found;
  __shared__ double left;
  if (threadIdx.x == 0) found = 0, left = wanted;
  for (int shift = 56; shift >= 0; shift -= 8) {
    if (threadIdx.x < 256) bins[threadIdx.x] = 0;
    __syncthreads();
    const uint64_t prefix = found;
    for (int i = threadIdx.x; i < vocab; i += kThreads) {
      const uint64_t key = key_of(values[i], i);
      if (key < floor || (shift < 56 && key >> (shift + 8) != prefix >> (shift + 8))) continue;
      const double part = measure(values[i]);
      if (part > 0) atomicAdd(&bins[key >> shift & 255], part);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int bin = 255, last = -1;
      for (; bin >= 0; --bin) {
        if (bins[bin] == 0) continue;
        last = bin;
        if (bins[bin] >= left) break;
        left -= bins[bin];
      }
      // Rounding may leave a rest after all of them: then the last is the one.
      found |= uint64_t(last < 0 ? 0 : last) << shift;
    }
    __syncthreads();
  }
  return found;
}

// --- one row ---------------------------------------------------------------------------------

__device__ void clean(const Params& p, const Row& row, float* logits) {
  for (int i = threadIdx.x; i < p.vocab; i += kThreads) {
    const bool allowed = row.allowed < 0 || (p.allowed[row.allowed + i / 32] >> (i % 32) & 1) != 0;
    const float x = logits[i];
    logits[i] = allowed && !isnan(x) ? fminf(x, kMost) : kNever;
  }
  __syncthreads();
  for (int i = row.banned_begin + threadIdx.x; i < row.banned_end; i += kThreads)
    if (p.banned[i] >= 0 && p.banned[i] < p.vocab) logits[p.banned[i]] = kNever;
  __syncthreads();
}

// A token may stand in the list of biases twice, so one thread adds them.
__device__ void penalise(const Params& p, const Row& row, float* logits) {
  if (threadIdx.x == 0)
    for (int i = row.bias_begin; i < row.bias_end; ++i)
      if (p.bias[i].token >= 0 && p.bias[i].token < p.vocab)
        logits[p.bias[i].token] += p.bias[i].bias;
  __syncthreads();
  for (int i = row.count_begin + threadIdx.x; i < row.count_end; i += kThreads) {
    const TokenCount count = p.counts[i];
    if (count.token < 0 || count.token >= p.vocab) continue;
    float logit = logits[count.token];
    if (count.in_prompt || count.generated > 0)
      logit = logit > 0 ? logit / row.repetition : logit * row.repetition;
    if (count.generated > 0) logit -= row.presence + row.frequency * float(count.generated);
    logits[count.token] = isnan(logit) ? kNever : fminf(logit, kMost);
  }
  __syncthreads();
}

// The token at which the sum of the weights, in the order of ids, passes a random share of the whole.
__device__ int draw(const Params& p, const Row& row, float* logits, float most) {
  __shared__ double sums[kThreads];
  __shared__ int drawn;
  // Logits become weights in place.
  for (int i = threadIdx.x; i < p.vocab; i += kThreads)
    logits[i] = expf(float((double(logits[i]) - most) / double(row.temperature)));
  __syncthreads();

  uint64_t floor = 1;  // the smallest key that is kept
  if (row.top_k > 0 && row.top_k < p.vocab)
    floor = last_kept(logits, p.vocab, row.top_k, floor,
                      [](float weight) { return weight > 0 ? 1.0 : 0.0; });
  if (row.min_p > 0) {
    // The largest weight is 1. The last id has the smallest key of a value.
    const uint64_t bound = key_of(fminf(row.min_p, 1), -2) & ~uint64_t(0xffffffff);
    if (bound > floor) floor = bound;
  }
  if (row.top_p < 1) {
    double mine = 0;
    for (int i = threadIdx.x; i < p.vocab; i += kThreads)
      if (key_of(logits[i], i) >= floor) mine += double(logits[i]);
    const double total = block_total(mine);
    floor = last_kept(logits, p.vocab, double(row.top_p) * total, floor,
                      [](float weight) { return double(weight); });
  }

  // Each thread adds up neighbours; one walks over the threads, then over the neighbours.
  const int each = (p.vocab + kThreads - 1) / kThreads;
  const int begin = threadIdx.x * each, end = min(p.vocab, begin + each);
  const auto kept = [&](int i) { return logits[i] > 0 && key_of(logits[i], i) >= floor; };
  double mine = 0;
  for (int i = begin; i < end; ++i)
    if (kept(i)) mine += double(logits[i]);
  sums[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    double total = 0;
    for (int i = 0; i < kThreads; ++i) total += sums[i];
    const double target = double(random_unit(row.seed, row.position)) * total;
    double passed = 0;
    int thread = 0;
    while (thread < kThreads - 1 && passed + sums[thread] <= target) passed += sums[thread++];
    drawn = -1;
    for (int i = thread * each; i < p.vocab; ++i) {
      if (!kept(i)) continue;
      drawn = i;
      passed += double(logits[i]);
      if (passed > target) break;
    }
    for (int i = thread * each - 1; drawn < 0 && i >= 0; --i)  // rounding went past the last one
      if (kept(i)) drawn = i;
  }
  __syncthreads();
  return drawn;
}

//   grid   rows
__global__ void __launch_bounds__(kThreads, 1) sample_kernel(const __grid_constant__ Params p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const Row row = p.rows[blockIdx.x];
  float* logits = p.logits + int64_t(blockIdx.x) * p.columns;
  Outcome& outcome = p.outcomes[blockIdx.x];
  if (threadIdx.x == 0) outcome.token = -1, outcome.logprob = 0, outcome.tops = 0;

  clean(p, row, logits);
  uint64_t best = next_largest(logits, p.vocab, ~uint64_t(0));
  if (best == 0) return;

  float* own = nullptr;
  double log_total = 0;
  if (row.logprobs >= 0) {
    own = p.own + int64_t(blockIdx.x) * p.columns;
    const float most = logits[token_of(best)];
    double mine = 0;
    for (int i = threadIdx.x; i < p.vocab; i += kThreads) {
      own[i] = logits[i];
      mine += exp(double(logits[i]) - most);
    }
    log_total = most + log(block_total(mine));
    uint64_t before = ~uint64_t(0);
    for (int i = 0; i < min(row.logprobs, kMaxLogprobs); ++i) {
      before = next_largest(own, p.vocab, before);
      if (before == 0) break;
      if (threadIdx.x == 0)
        outcome.top[outcome.tops++] = {token_of(before),
                                       float(double(own[token_of(before)]) - log_total)};
    }
  }

  penalise(p, row, logits);
  best = next_largest(logits, p.vocab, ~uint64_t(0));
  if (best == 0) return;
  int token = token_of(best);
  if (row.temperature > 0) token = draw(p, row, logits, logits[token]);
  if (threadIdx.x == 0) {
    outcome.token = token;
    if (own) outcome.logprob = float(double(own[token]) - log_total);
  }
}

// --- the largest logit alone: greedy rows without lists and log-probabilities ---------------------------

constexpr int kGreedyThreads = 256;
constexpr int kGreedyBlocks = 64;  // a row
constexpr int kMaxGreedyRows = 4096;

// Blocks that have written their part, of each row. The last sets it back to 0.
__device__ int arrived[kMaxGreedyRows];

struct GreedyParams {
  int* tokens;          // [rows]
  const float* logits;  // [rows, columns]
  uint64_t* parts;      // [rows, kGreedyBlocks]
  int columns, vocab;
};

//   grid   kGreedyBlocks, rows
__global__ void __launch_bounds__(kGreedyThreads)
    greedy_kernel(const __grid_constant__ GreedyParams p) {
  __shared__ uint64_t best_of_warp[kGreedyThreads / kWarp];
  __shared__ bool last;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const auto largest = [&](uint64_t best) {
#pragma unroll
    for (int other = kWarp / 2; other > 0; other /= 2) {
      const uint64_t theirs = __shfl_xor_sync(~0u, best, other);
      if (theirs > best) best = theirs;
    }
    if (threadIdx.x % kWarp == 0) best_of_warp[threadIdx.x / kWarp] = best;
    __syncthreads();
    for (int i = 0; i < kGreedyThreads / kWarp; ++i)
      if (best_of_warp[i] > best) best = best_of_warp[i];
    return best;
  };
  const float* logits = p.logits + int64_t(blockIdx.y) * p.columns;
  uint64_t best = 0;
  for (int i = blockIdx.x * kGreedyThreads + threadIdx.x; i < p.vocab;
       i += kGreedyBlocks * kGreedyThreads) {
    const float x = fminf(logits[i], kMost);  // +inf is as good as the largest number
    if (isnan(logits[i]) || x == kNever) continue;
    const uint64_t key = key_of(x, i);
    if (key > best) best = key;
  }
  best = largest(best);
  uint64_t* parts = p.parts + blockIdx.y * kGreedyBlocks;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = best;
    __threadfence();
    last = atomicAdd(&arrived[blockIdx.y], 1) == kGreedyBlocks - 1;
    if (last) arrived[blockIdx.y] = 0;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  best = largest(threadIdx.x < kGreedyBlocks ? __ldcg(parts + threadIdx.x) : 0);
  if (threadIdx.x == 0) p.tokens[blockIdx.y] = best == 0 ? -1 : token_of(best);
}

bool plainly_greedy(const SampleRow& row) {
  return row.temperature <= 0 && row.logprobs < 0 && row.bias.empty() && row.banned.empty() &&
         !row.allowed &&
         (row.counts.empty() ||
          (row.presence_penalty == 0 && row.frequency_penalty == 0 && row.repetition_penalty == 1));
}

// Rows and lists on their way to the device, as one piece.
class Packet {
 public:
  template <class T>
  int64_t add(const T* from, size_t count) {
    const size_t at = (bytes_.size() + 15) / 16 * 16;
    bytes_.resize(at + count * sizeof(T));
    if (count > 0) std::memcpy(bytes_.data() + at, from, count * sizeof(T));
    return int64_t(at);
  }
  template <class T>
  int64_t add(const std::vector<T>& from) {
    return add(from.data(), from.size());
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// The wishes of all rows, sent as one piece, and the kernel that fulfils them.
void launch_sample(Stream& stream, const Sample& op, int rows, int columns, Outcome* outcomes) {
  std::vector<Row> wishes;
  std::vector<TokenBias> bias;
  std::vector<TokenCount> counts;
  std::vector<int> banned;
  std::vector<uint32_t> allowed;
  bool logprobs = false;
  const auto append = [](auto& list, const auto& more) {
    list.insert(list.end(), more.begin(), more.end());
    return int(list.size());
  };
  for (const SampleRow& from : op.rows) {
    Row row = {.temperature = from.temperature,
               .top_p = from.top_p,
               .min_p = from.min_p,
               .presence = from.presence_penalty,
               .frequency = from.frequency_penalty,
               .repetition = from.repetition_penalty,
               .top_k = from.top_k,
               .logprobs = from.logprobs,
               .seed = from.seed,
               .position = from.position,
               .bias_begin = int(bias.size()),
               .bias_end = append(bias, from.bias),
               .count_begin = int(counts.size()),
               .count_end = append(counts, from.counts),
               .banned_begin = int(banned.size()),
               .banned_end = append(banned, from.banned),
               .allowed = -1};
    if (from.allowed) {
      row.allowed = int(allowed.size());
      append(allowed, std::span(from.allowed, size_t(op.vocab + 31) / 32));
    }
    logprobs = logprobs || from.logprobs >= 0;
    wishes.push_back(row);
  }

  Packet packet;
  const int64_t rows_at = packet.add(wishes), bias_at = packet.add(bias);
  const int64_t counts_at = packet.add(counts), banned_at = packet.add(banned);
  const int64_t allowed_at = packet.add(allowed);
  Arena& scratch = *stream.scratch;
  uint8_t* sent = scratch.take(DType::u8, {int64_t(packet.bytes().size())}).as<uint8_t>();
  const Tensor own = logprobs ? scratch.take(DType::f32, {rows, columns}) : Tensor();
  stream.device->upload(stream, sent, packet.bytes().data(), int64_t(packet.bytes().size()));
  launch<sample_kernel>("sample", {.blocks = dim3(unsigned(rows)), .threads = kThreads}, stream,
                        Params{.outcomes = outcomes,
                               .logits = op.logits.as<float>(),
                               .own = static_cast<float*>(own.data),
                               .rows = reinterpret_cast<const Row*>(sent + rows_at),
                               .bias = reinterpret_cast<const TokenBias*>(sent + bias_at),
                               .counts = reinterpret_cast<const TokenCount*>(sent + counts_at),
                               .banned = reinterpret_cast<const int*>(sent + banned_at),
                               .allowed = reinterpret_cast<const uint32_t*>(sent + allowed_at),
                               .columns = int(columns),
                               .vocab = op.vocab});
}

}  // namespace

void sample(Stream& stream, const Sample& op) {
  Dim rows("rows", int64_t(op.rows.size())), columns("columns");
  shape_check("sample", op.logits, "logits", {&rows, &columns});
  ROSE_CHECK(op.results.size() == op.rows.size(), "sample: %zu results for %zu rows",
             op.results.size(), op.rows.size());
  ROSE_CHECK(op.vocab <= columns, "sample: vocab %d, %ld columns", op.vocab, long(columns));
  if (rows == 0) return;

  Arena& scratch = *stream.scratch;
  const Arena::Mark mark = scratch.mark();
  if (rows <= kMaxGreedyRows && std::all_of(op.rows.begin(), op.rows.end(), plainly_greedy)) {
    const Tensor tokens = scratch.take(DType::i32, {rows});
    const Tensor parts = scratch.take(DType::i64, {rows, kGreedyBlocks});
    launch<greedy_kernel>(
        "sample", {.blocks = dim3(kGreedyBlocks, unsigned(rows)), .threads = kGreedyThreads},
        stream,
        GreedyParams{.tokens = tokens.as<int>(),
                     .logits = op.logits.as<float>(),
                     .parts = reinterpret_cast<uint64_t*>(parts.data),
                     .columns = int(columns),
                     .vocab = op.vocab});
    std::vector<int> results(static_cast<size_t>(rows));
    stream.device->download(stream, results.data(), tokens.data, tokens.bytes());
    stream.device->synchronize(stream);
    for (size_t i = 0; i < results.size(); ++i)
      op.results[i] = {.token = results[i], .logprob = 0, .top = {}};
  } else {
    const int64_t outcome_bytes = rows * int64_t(sizeof(Outcome));
    const Tensor outcomes = scratch.take(DType::u8, {outcome_bytes});
    launch_sample(stream, op, int(rows), int(columns), reinterpret_cast<Outcome*>(outcomes.data));
    std::vector<Outcome> results(static_cast<size_t>(rows));
    stream.device->download(stream, results.data(), outcomes.data, outcome_bytes);
    stream.device->synchronize(stream);
    for (size_t i = 0; i < results.size(); ++i)
      op.results[i] = {.token = results[i].token,
                       .logprob = results[i].logprob,
                       .top = {results[i].top, results[i].top + results[i].tops}};
  }
  scratch.rewind(mark);
}

}  // namespace rose::cuda
