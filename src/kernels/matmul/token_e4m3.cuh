// 128 columns of a token as E4M3 with one scale, the largest / 448.
#pragma once
#include "device/warp.cuh"

namespace rose::cuda {

// Below this all is zero: 448 / most must be a number.
constexpr float kLeastE4m3 = 1e-30f;

__device__ __forceinline__ float e4m3_scale(float most) {
  return most > kLeastE4m3 ? most / 448 : 0;
}

// Four bf16 of each lane of a warp as E4M3, with one scale for all 128.
struct E4m3Four {
  uint32_t codes;
  float scale;
};
__device__ __forceinline__ E4m3Four four_e4m3(const uint2& pairs) {
  float values[4], most = 0;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const uint32_t pair = j / 2 ? pairs.y : pairs.x;
    values[j] = __uint_as_float(j % 2 ? pair & 0xffff0000u : pair << 16);
    most = fmaxf(most, fabsf(values[j]));
  }
  most = warp_max(most);
  const float inverse = most > kLeastE4m3 ? 448 / most : 0;
  return {pack_e4m3(values[0] * inverse, values[1] * inverse) |
              uint32_t(pack_e4m3(values[2] * inverse, values[3] * inverse)) << 16,
          most > kLeastE4m3 ? most / 448 : 0};
}

// Eight of each of sixteen lanes, by all lanes of the warp. Their scale is e4m3_scale(most), for the one that writes it.
__device__ __forceinline__ uint2 eight_e4m3(const uint4& pairs, float& most) {
  most = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 v = halves((&pairs.x)[i]);
    most = fmaxf(most, fmaxf(fabsf(v.x), fabsf(v.y)));
  }
#pragma unroll
  for (int other = 1; other < 16; other *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, other));
  const float inverse = most > kLeastE4m3 ? 448 / most : 0;
  uint2 codes;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 low = halves((&pairs.x)[2 * i]), high = halves((&pairs.x)[2 * i + 1]);
    (&codes.x)[i] = pack_e4m3(low.x * inverse, low.y * inverse) |
                    uint32_t(pack_e4m3(high.x * inverse, high.y * inverse)) << 16;
  }
  return codes;
}

// Sixteen of each of eight lanes.
__device__ __forceinline__ uint4 sixteen_e4m3(const uint4 (&pairs)[2], float& scale) {
  const uint32_t* pair = &pairs[0].x;
  const auto value = [&](int i) {
    return __uint_as_float(i % 2 ? pair[i / 2] & 0xffff0000u : pair[i / 2] << 16);
  };
  float most = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) most = fmaxf(most, fabsf(value(i)));
#pragma unroll
  for (int other = 1; other < 8; other *= 2)
    most = fmaxf(most, __shfl_xor_sync(0xffu << threadIdx.x % kWarp / 8 * 8, most, other));
  const float inverse = most > kLeastE4m3 ? 448 / most : 0;
  scale = most > kLeastE4m3 ? most / 448 : 0;
  uint4 codes;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    (&codes.x)[i] = pack_e4m3(value(4 * i) * inverse, value(4 * i + 1) * inverse) |
                    uint32_t(pack_e4m3(value(4 * i + 2) * inverse, value(4 * i + 3) * inverse))
                        << 16;
  return codes;
}

}  // namespace rose::cuda
