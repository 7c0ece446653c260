#include "kernels/route/route.h"

#include "device/arena.h"
#include "device/launch.cuh"
#include "device/ptx.cuh"
#include "device/warp.cuh"
#include "kernels/cuda.h"
#include "kernels/route/choose.cuh"

namespace rose::cuda {

namespace {

constexpr int kWarps = 8;
constexpr int kTokens = 8;  // of a block
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
  const float* gain;            // [hidden] or null
  T* normed;                    // [tokens, hidden], with `gain`
  float eps;
  int tokens, hidden, experts, top_k;
};

// One warp, one token.
template <class T>
__device__ void choose(const Params<T>& p, int token) {
  const Choice choice =
      choose_experts<T>(p.logits + int64_t(token) * p.experts, p.experts, p.top_k);
  const int lane = threadIdx.x % kWarp;
  if (lane >= p.top_k) return;
  p.chosen[int64_t(token) * p.top_k + lane] = choice.expert;
  p.weights[int64_t(token) * p.top_k + lane] = choice.weight;
}

// The block that finishes last of those of the same tokens chooses: a second kernel would cost more than the
// whole first.
// Meanwhile all do what is left to do: before it, the fence would wait for what that writes.
template <class T, class Meanwhile>
__device__ void choose_when_all_arrived(const Params<T>& p, int first, int tokens,
                                        Meanwhile&& meanwhile) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(&arrived[blockIdx.y], 1) == int(gridDim.x) - 1;
    if (last) arrived[blockIdx.y] = 0;
    __threadfence();
  }
  meanwhile();
  __syncthreads();
  const int warp = threadIdx.x / kWarp;
  if (last && warp < tokens) choose(p, first + warp);
}

// Tensor cores: 16 experts x 8 tokens a block, whose warps take the units of 64 columns in turn. Operands come
// straight from memory: the order of columns inside a unit is free, so a lane takes 16 bytes at a time. A
// block has all of its tokens' rows in its registers, and can norm them without reading them again.
//   grid   experts / 16, tokens / kTokens
//   needs  hidden % 64 == 0, hidden <= kMmaHidden
constexpr int kUnits = 3;  // of a warp
constexpr int kMmaHidden = kUnits * kMmaWarps * 64;

template <bool kNorm>
__global__ void __launch_bounds__(kMmaWarps* kWarp)
    route_mma_kernel(const __grid_constant__ Params<__nv_bfloat16> p) {
  constexpr int kExperts = 16;
  __shared__ float sums[kMmaWarps][kExperts][kTokens];
  __shared__ __align__(16) float gain[kNorm ? kMmaHidden : 4];
  __shared__ float squares[kMmaWarps][kTokens];
  let_next_kernel_start();  // experts: it waits before it reads anything
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, g = lane / 4, c = lane % 4;
  const int expert = blockIdx.x * kExperts + g;
  const int first = blockIdx.y * kTokens, tokens = min(kTokens, p.tokens - first);
  const __nv_bfloat16* low = p.weight + int64_t(min(expert, p.experts - 1)) * p.hidden + 8 * c;
  const __nv_bfloat16* high = p.weight + int64_t(min(expert + 8, p.experts - 1)) * p.hidden + 8 * c;
  const int64_t row = int64_t(first + min(g, tokens - 1)) * p.hidden + 8 * c;
  const int units = p.hidden / 64;
  const auto column = [&](int i, int part) { return (warp + i * kMmaWarps) * 64 + part * 32; };
  const auto exists = [&](int i) { return warp + i * kMmaWarps < units; };

  // Weights and gains before the kernel before has ended: no kernel writes them.
  uint4 weights[kUnits][2][2];
#pragma unroll
  for (int i = 0; i < kUnits; ++i)
    if (exists(i))
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        weights[i][part][0] = *reinterpret_cast<const uint4*>(low + column(i, part));
        weights[i][part][1] = *reinterpret_cast<const uint4*>(high + column(i, part));
      }
  if constexpr (kNorm)
    for (int h = threadIdx.x * 4; h < p.hidden; h += kMmaWarps * kWarp * 4)
      *reinterpret_cast<float4*>(gain + h) = *reinterpret_cast<const float4*>(p.gain + h);
  wait_for_previous_kernel();

  uint4 x[kUnits][2];
#pragma unroll
  for (int i = 0; i < kUnits; ++i)
    if (exists(i))
#pragma unroll
      for (int part = 0; part < 2; ++part)
        x[i][part] = *reinterpret_cast<const uint4*>(p.x + row + column(i, part));
  if constexpr (kNorm) {
    float square = 0;
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
      if (exists(i))
#pragma unroll
        for (int part = 0; part < 2; ++part)
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float2 values = halves((&x[i][part].x)[j]);
            square += values.x * values.x + values.y * values.y;
          }
    square += __shfl_xor_sync(~0u, square, 1);
    square += __shfl_xor_sync(~0u, square, 2);
    if (c == 0) squares[warp][g] = square;
    __syncthreads();  // the gains, too
    float total = 0;
#pragma unroll
    for (int w = 0; w < kMmaWarps; ++w) total += squares[w][g];
    const float scale = 1 / sqrtf(total / float(p.hidden) + p.eps);
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
      if (exists(i))
#pragma unroll
        for (int part = 0; part < 2; ++part) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            uint32_t& pair = (&x[i][part].x)[j];
            const float2 values = halves(pair);
            const float2 by =
                *reinterpret_cast<const float2*>(gain + column(i, part) + 8 * c + 2 * j);
            pair = pack_bf16(values.x * scale * by.x, values.y * scale * by.y);
          }
        }
  }

  float sum[4] = {};
#pragma unroll
  for (int i = 0; i < kUnits; ++i)
    if (exists(i))
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const uint4 &a = weights[i][part][0], &b = weights[i][part][1], &t = x[i][part];
        mma_bf16(sum, a.x, b.x, a.y, b.y, t.x, t.y);
        mma_bf16(sum, a.z, b.z, a.w, b.w, t.z, t.w);
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
  choose_when_all_arrived(p, first, tokens, [&] {
    if constexpr (kNorm)
#pragma unroll
      for (int i = 0; i < kUnits; ++i)  // each block a part
        if (exists(i) && uint32_t(warp + i) % gridDim.x == blockIdx.x && g < tokens)
#pragma unroll
          for (int part = 0; part < 2; ++part)
            *reinterpret_cast<uint4*>(p.normed + row + column(i, part)) = x[i][part];
  });
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

  choose_when_all_arrived(p, first, tokens, [] {});
}

}  // namespace

void route(Stream& stream, const Route& op) {
  const bool tensor =
      op.x.dtype == DType::bf16 && op.x.dim(1) % 64 == 0 && op.x.dim(1) <= kMmaHidden;
  if (op.gain && !tensor) {
    rms_norm(stream, norm_of(op));
    return route(stream, routing_of(op));
  }
  Dim tokens("tokens"), hidden("hidden"), experts("experts"), top_k("top_k");
  shape_check("route", op.x, "x", {&tokens, &hidden});
  shape_check("route", op.weight, "weight", {&experts, &hidden});
  shape_check("route", op.bias, "bias", {&experts});
  shape_check("route", op.experts, "experts", {&tokens, &top_k});
  shape_check("route", op.weights, "weights", {&tokens, &top_k});
  if (op.gain) {
    shape_check("route", op.gain, "gain", {&hidden});
    shape_check("route", op.normed, "normed", {&tokens, &hidden});
  }
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
                              .gain = op.gain ? op.gain.as<float>() : nullptr,
                              .normed = op.gain ? elements<T>(op.normed) : nullptr,
                              .eps = op.eps,
                              .tokens = int(tokens),
                              .hidden = int(hidden),
                              .experts = int(experts),
                              .top_k = int(top_k)};
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
      if (tensor) {
        const Grid grid = {.blocks = dim3(unsigned((experts + 15) / 16), unsigned(blocks)),
                           .threads = kMmaWarps * kWarp};
        op.gain ? launch<route_mma_kernel<true>>("route", grid, stream, params)
                : launch<route_mma_kernel<false>>("route", grid, stream, params);
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
