#include "kernels/route/route.h"

#include "device/arena.h"
#include "device/launch.cuh"
#include "device/ptx.cuh"
#include "device/warp.cuh"
#include "kernels/cuda.h"

namespace rose::cuda {

namespace {

constexpr int kWarps = 8;
constexpr int kTokens = 8;  // of a block
constexpr int kMaxExperts = 256;
constexpr int kMmaWarps = 16;
constexpr int kMaxTokenBlocks = 1 << 16;

// Blocks that have written their logits, of each block of tokens. The last one sets it back to 0.
__device__ int arrived[kMaxTokenBlocks];

template <class T>
struct Params {
  int* chosen;                  // [tokens, top_k]
  float* weights;               // [tokens, top_k]
  float* logits;                // [tokens, experts]
  const T* x;                   // [tokens, hidden]
  const __nv_bfloat16* weight;  // [experts, hidden]
  const float* bias;            // [experts]
  int tokens, hidden, experts, top_k;
};

// Larger logits first, then lower indices: a total order, so the choices are distinct. 0 is none.
__device__ uint64_t key_of(float logit, int expert) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);  // -0 equals 0
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return uint64_t(ordered) << 32 | uint32_t(~expert);
}

__device__ float logit_of(uint64_t key) {
  const uint32_t ordered = uint32_t(key >> 32);
  return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

// One warp, one token. The logits stay in registers: a turn costs shuffles only.
template <class T>
__device__ void choose(const Params<T>& p, int token) {
  constexpr int kKept = kMaxExperts / kWarp;
  const int lane = threadIdx.x % kWarp;
  const float* logits = p.logits + int64_t(token) * p.experts;
  uint64_t keys[kKept];
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int e = lane + i * kWarp;
    keys[i] = e < p.experts ? key_of(__ldcg(logits + e), e) : 0;
  }
  uint64_t before = ~uint64_t(0);
  float first = 0, mine = 0, total = 0;  // lane i keeps exp of choice i
  for (int i = 0; i < p.top_k; ++i) {
    uint64_t best = 0;
#pragma unroll
    for (int k = 0; k < kKept; ++k)
      if (keys[k] < before && keys[k] > best) best = keys[k];
#pragma unroll
    for (int other = kWarp / 2; other > 0; other /= 2) {
      const uint64_t theirs = __shfl_xor_sync(~0u, best, other);
      if (theirs > best) best = theirs;
    }
    before = best;
    const float logit = logit_of(best);
    if (i == 0) first = logit;
    const float weight = expf(logit - first);
    total += weight;
    if (lane == i) {
      mine = weight;
      p.chosen[int64_t(token) * p.top_k + i] = int(~uint32_t(best));
    }
  }
  if (lane < p.top_k) p.weights[int64_t(token) * p.top_k + lane] = rounded<T>(mine / total);
}

// The block that finishes last of those of the same tokens chooses: a second kernel would cost more than the
// whole first.
template <class T>
__device__ void choose_when_all_arrived(const Params<T>& p, int first, int tokens) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(&arrived[blockIdx.y], 1) == int(gridDim.x) - 1;
    if (last) arrived[blockIdx.y] = 0;
    __threadfence();
  }
  __syncthreads();
  const int warp = threadIdx.x / kWarp;
  if (last && warp < tokens) choose(p, first + warp);
}

// Tensor cores: 16 experts x 8 tokens a block, whose warps take the units of 64 columns in turn. Operands come
// straight from memory: the order of columns inside a unit is free, so a lane takes 16 bytes at a time.
//   grid   experts / 16, tokens / kTokens
//   needs  hidden % 64 == 0
__global__ void __launch_bounds__(kMmaWarps* kWarp)
    route_mma_kernel(const __grid_constant__ Params<__nv_bfloat16> p) {
  constexpr int kExperts = 16;
  __shared__ float sums[kMmaWarps][kExperts][kTokens];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, c = lane % 4;
  const int expert = blockIdx.x * kExperts + g;
  const int first = blockIdx.y * kTokens, tokens = min(kTokens, p.tokens - first);
  const __nv_bfloat16* low = p.weight + int64_t(min(expert, p.experts - 1)) * p.hidden + 8 * c;
  const __nv_bfloat16* high = p.weight + int64_t(min(expert + 8, p.experts - 1)) * p.hidden + 8 * c;
  const __nv_bfloat16* x = p.x + int64_t(first + min(g, tokens - 1)) * p.hidden + 8 * c;
  const auto at = [](const __nv_bfloat16* row, int column) {
    return *reinterpret_cast<const uint4*>(row + column);
  };
  // The first units' weights, before the kernel before has ended: no kernel writes them.
  constexpr int kEarly = 3;
  const int units = p.hidden / 64;
  uint4 early[kEarly][2][2];
#pragma unroll
  for (int i = 0; i < kEarly; ++i)
    if (warp + i * kMmaWarps < units)
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        early[i][part][0] = at(low, (warp + i * kMmaWarps) * 64 + part * 32);
        early[i][part][1] = at(high, (warp + i * kMmaWarps) * 64 + part * 32);
      }
  wait_for_previous_kernel();
  let_next_kernel_start();

  float sum[4] = {};
  const auto multiply = [&](const uint4& a, const uint4& b, const uint4& t) {
    mma_bf16(sum, a.x, b.x, a.y, b.y, t.x, t.y);
    mma_bf16(sum, a.z, b.z, a.w, b.w, t.z, t.w);
  };
  uint4 tokens_of[kEarly][2];
#pragma unroll
  for (int i = 0; i < kEarly; ++i)
    if (warp + i * kMmaWarps < units)
#pragma unroll
      for (int part = 0; part < 2; ++part)
        tokens_of[i][part] = at(x, (warp + i * kMmaWarps) * 64 + part * 32);
#pragma unroll
  for (int i = 0; i < kEarly; ++i)
    if (warp + i * kMmaWarps < units)
#pragma unroll
      for (int part = 0; part < 2; ++part)
        multiply(early[i][part][0], early[i][part][1], tokens_of[i][part]);
  for (int unit = warp + kEarly * kMmaWarps; unit < units; unit += kMmaWarps)
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const int column = unit * 64 + part * 32;
      multiply(at(low, column), at(high, column), at(x, column));
    }
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[warp][g + i / 2 * 8][2 * c + i % 2] = sum[i];
  __syncthreads();
  const int e = threadIdx.x / kTokens, token = threadIdx.x % kTokens;
  if (e < kExperts && token < tokens && blockIdx.x * kExperts + e < p.experts) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < kMmaWarps; ++w) total += sums[w][e][token];
    const int of = blockIdx.x * kExperts + e;
    p.logits[int64_t(first + token) * p.experts + of] = rounded<__nv_bfloat16>(total + p.bias[of]);
  }
  choose_when_all_arrived(p, first, tokens);
}

// Any type and width: a warp computes one expert's logits of up to eight tokens.
//   grid   experts / kWarps, tokens / kTokens
template <class T>
__global__ void __launch_bounds__(kWarps* kWarp) route_kernel(const __grid_constant__ Params<T> p) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int expert = blockIdx.x * kWarps + warp;
  const int first = blockIdx.y * kTokens, tokens = min(kTokens, p.tokens - first);
  wait_for_previous_kernel();
  let_next_kernel_start();

  if (expert < p.experts) {
    const __nv_bfloat16* w = p.weight + int64_t(expert) * p.hidden;
    float sum[kTokens] = {};
    for (int h = lane; h < p.hidden; h += kWarp)
#pragma unroll
      for (int token = 0; token < kTokens; ++token)
        if (token < tokens)
          sum[token] += to_float(p.x[int64_t(first + token) * p.hidden + h]) * to_float(w[h]);
#pragma unroll
    for (int token = 0; token < kTokens; ++token) {
      if (token >= tokens) break;
      const float logit = rounded<T>(warp_sum(sum[token]) + p.bias[expert]);
      if (lane == 0) p.logits[int64_t(first + token) * p.experts + expert] = logit;
    }
  }

  choose_when_all_arrived(p, first, tokens);
}

}  // namespace

void route(Stream& stream, const Route& op) {
  Dim tokens("tokens"), hidden("hidden"), experts("experts"), top_k("top_k");
  shape_check("route", op.x, "x", {&tokens, &hidden});
  shape_check("route", op.weight, "weight", {&experts, &hidden});
  shape_check("route", op.bias, "bias", {&experts});
  shape_check("route", op.experts, "experts", {&tokens, &top_k});
  shape_check("route", op.weights, "weights", {&tokens, &top_k});
  ROSE_CHECK(top_k <= experts && top_k <= kWarp && experts <= kMaxExperts,
             "route: %ld of %ld experts", long(top_k), long(experts));
  const int64_t blocks = (tokens + kTokens - 1) / kTokens;
  ROSE_CHECK(blocks < kMaxTokenBlocks, "route: %ld tokens", long(tokens));
  if (tokens == 0) return;

  const Tensor logits = stream.scratch->take(DType::f32, {tokens, experts});
  with_type_of(op.x, "route", [&]<class T>(T) {
    const Params<T> params = {.chosen = op.experts.as<int>(),
                              .weights = op.weights.as<float>(),
                              .logits = logits.as<float>(),
                              .x = elements<T>(op.x),
                              .weight = elements<__nv_bfloat16>(op.weight),
                              .bias = op.bias.as<float>(),
                              .tokens = int(tokens),
                              .hidden = int(hidden),
                              .experts = int(experts),
                              .top_k = int(top_k)};
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      if (hidden % 64 == 0) {
        launch<route_mma_kernel>("route",
                                 {.blocks = dim3(unsigned((experts + 15) / 16), unsigned(blocks)),
                                  .threads = kMmaWarps * kWarp},
                                 stream, params);
        return;
      }
    launch<route_kernel<T>>(
        "route",
        {.blocks = dim3(unsigned((experts + kWarps - 1) / kWarps), unsigned(blocks)),
         .threads = kWarps * kWarp},
        stream, params);
  });
}

}  // namespace rose::cuda
