// What a token is while it passes through decode.cu: in a block's shared memory, and in memory between blocks.
#pragma once
#include "kernels/attend/split_parts.cuh"
#include "kernels/decode/multiply.cuh"
#include "kernels/matmul/token_e4m3.cuh"

namespace rose::cuda {

namespace {

constexpr int kWorkers = kWorkerWarps * kWarp;  // threads
constexpr int kMaxHidden = kWorkers * 8;        // each has eight columns of the residual stream
constexpr int kMaxTopK = 4;
constexpr int kMaxChunks = 23;  // of 128 columns, of a product with an expert
constexpr int kMaxSums = 1024;
constexpr int kMaxKvHeads = 64;
constexpr int kMaxQkv = 8192;

__device__ int splits_arrived[kMaxKvHeads];

// Products whose groups may be cut between two blocks are added up here: of two numbers and 0 the sum is the same in
// any order. 0 where nobody needs it, and between launches.
struct alignas(128) Added {
  float qkv[kMaxQkv];
  float out[kMaxHidden];
  float down[kMaxTopK][kMaxHidden];
};
__device__ Added added;

// Shared memory, after the rings of the warpgroups.
struct Shared {
  float2 turns[kTileDim / 2];
  Fresh fresh;
  uint4 query[kHeads][kDim / 8];  // rotated
  float warp_sums[kWorkerWarps];
  Plan plan;
  uint64_t full[kWarpgroups][kStages], empty[kWarpgroups][kStages];
  uint64_t routed;  // `chosen` is of another layer
  int chosen[kMaxTopK];
  float weights[kMaxTopK];
  alignas(16) Bf16 x[kMaxHidden];  // the residual stream
  float scales[2][kMaxChunks];     // of `tokens` that are E4M3
  float sums[kMaxSums];            // of a product: multiply.cuh
  // Of attention; of all else the tokens of a product, f16 or, of up to two experts, E4M3.
  union alignas(1024) {
    SplitShared<kWorkerWarps> split;
    uint8_t tokens[2 * kMaxChunks * kTokenChunkBytes];
  };
};

// What other blocks have written is read past the first cache.
__device__ __forceinline__ uint4 load_eight(const Bf16* from) {
  return __ldcg(reinterpret_cast<const uint4*>(from));
}
// Eight sums, rounded.
__device__ __forceinline__ uint4 load_added(const float* from) {
  const float4 a = __ldcg(reinterpret_cast<const float4*>(from));
  const float4 b = __ldcg(reinterpret_cast<const float4*>(from) + 1);
  return make_uint4(pack_bf16(a.x, a.y), pack_bf16(a.z, a.w), pack_bf16(b.x, b.y),
                    pack_bf16(b.z, b.w));
}
__device__ __forceinline__ float2 halves(uint32_t pair) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

// Eight columns of a token as f16.
__device__ __forceinline__ void put_f16(uint8_t* tokens, int column, const uint4& eight) {
  *reinterpret_cast<uint4*>(tokens + column * 2) = make_uint4(
      bf16_to_f16(eight.x), bf16_to_f16(eight.y), bf16_to_f16(eight.z), bf16_to_f16(eight.w));
}
// As E4M3, by all lanes of a warp, with a scale for the 128 columns of 16 of them. Columns up to a multiple of 128.
__device__ __forceinline__ void put_e4m3(uint8_t* tokens, float* scales, int column, int columns,
                                         const uint4& eight) {
  float most = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 v = halves((&eight.x)[i]);
    most = fmaxf(most, fmaxf(fabsf(v.x), fabsf(v.y)));
  }
#pragma unroll
  for (int other = 1; other < 16; other *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, other));
  const float inverse = most > kLeastE4m3 ? 448 / most : 0;
  uint32_t codes[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 low = halves((&eight.x)[2 * i]), high = halves((&eight.x)[2 * i + 1]);
    codes[i] = pack_e4m3(low.x * inverse, low.y * inverse) |
               uint32_t(pack_e4m3(high.x * inverse, high.y * inverse)) << 16;
  }
  if (column < (columns + 127) / 128 * 128) {
    *reinterpret_cast<uint2*>(tokens + column / 64 * kTokenUnitBytes + column % 64) =
        make_uint2(codes[0], codes[1]);
    if (column % 128 == 0) scales[column / 128] = most > kLeastE4m3 ? most / 448 : 0;
  }
  fence_shared_writes();
}

}  // namespace

}  // namespace rose::cuda
