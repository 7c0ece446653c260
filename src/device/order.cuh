// Values with the ids of who has them, in one order: larger values first, then lower ids, as 64-bit keys that are all
// distinct and never 0. The largest key comes first.
#pragma once
#include <cstdint>

namespace rose::cuda {

__device__ inline uint64_t key_of(float value, int id) {
  const uint32_t bits = __float_as_uint(value + 0.0f);  // -0 equals 0
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return uint64_t(ordered) << 32 | uint32_t(~id);
}

__device__ inline int id_of(uint64_t key) { return int(~uint32_t(key)); }

__device__ inline float value_of(uint64_t key) {
  const uint32_t ordered = uint32_t(key >> 32);
  return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

}  // namespace rose::cuda
