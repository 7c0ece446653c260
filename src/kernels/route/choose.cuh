// The choice of a token's experts by their logits (route.h).
#pragma once
#include "device/warp.cuh"

namespace rose::cuda {

constexpr int kMaxExperts = 256;

// Larger logits first, then lower indices: a total order, so the choices are distinct. 0 is none.
__device__ inline uint64_t key_of(float logit, int expert) {
  const uint32_t bits = __float_as_uint(logit + 0.0f);  // -0 equals 0
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return uint64_t(ordered) << 32 | uint32_t(~expert);
}

__device__ inline float logit_of(uint64_t key) {
  const uint32_t ordered = uint32_t(key >> 32);
  return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

struct Choice {
  int expert = 0;
  float weight = 0;
};

// By one warp; lane i < top_k gets the i-th choice. The logits stay in registers: a turn costs shuffles only.
template <class T>
__device__ Choice choose_experts(const float* logits, int experts, int top_k) {
  constexpr int kKept = kMaxExperts / kWarp;
  const int lane = threadIdx.x % kWarp;
  uint64_t keys[kKept];
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int e = lane + i * kWarp;
    keys[i] = e < experts ? key_of(__ldcg(logits + e), e) : 0;
  }
  uint64_t before = ~uint64_t(0);
  float first = 0, total = 0;
  Choice mine;
  for (int i = 0; i < top_k; ++i) {
    uint64_t best = 0;
#pragma unroll
    for (int k = 0; k < kKept; ++k)
      if (k * kWarp < experts && keys[k] < before && keys[k] > best) best = keys[k];
    const uint32_t high = __reduce_max_sync(~0u, uint32_t(best >> 32));
    const uint32_t low = __reduce_max_sync(~0u, uint32_t(best >> 32) == high ? uint32_t(best) : 0u);
    before = best = uint64_t(high) << 32 | low;
    const float logit = logit_of(best);
    if (i == 0) first = logit;
    const float weight = expf(logit - first);
    total += weight;
    if (lane == i) mine = {int(~uint32_t(best)), weight};
  }
  mine.weight = rounded<T>(mine.weight / total);
  return mine;
}

}  // namespace rose::cuda
