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

// Eight columns of a token as f16.
__device__ __forceinline__ void put_f16(uint8_t* tokens, int column, const uint4& eight) {
  *reinterpret_cast<uint4*>(tokens + column * 2) = make_uint4(
      bf16_to_f16(eight.x), bf16_to_f16(eight.y), bf16_to_f16(eight.z), bf16_to_f16(eight.w));
}
// As E4M3, by all lanes of a warp, with a scale for the 128 columns of 16 of them. Columns up to a multiple of 128.
__device__ __forceinline__ void put_e4m3(uint8_t* tokens, float* scales, int column, int columns,
                                         const uint4& eight) {
  float most;
  const uint2 codes = eight_e4m3(eight, most);
  if (column < (columns + 127) / 128 * 128) {
    *reinterpret_cast<uint2*>(tokens + column / 64 * kTokenUnitBytes + column % 64) = codes;
    if (column % 128 == 0) scales[column / 128] = e4m3_scale(most);
  }
  fence_shared_writes();
}

}  // namespace

}  // namespace rose::cuda
