// The choice of a token's experts by their logits (route.h).
#pragma once
#include "device/order.cuh"
#include "device/warp.cuh"

namespace rose::cuda {

constexpr int kMaxExperts = 256;

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
    keys[i] = e < experts ? key_of(__ldcg(logits + e), e) : 0;  // 0: none
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
    const float logit = value_of(best);
    if (i == 0) first = logit;
    const float weight = expf(logit - first);
    total += weight;
    if (lane == i) mine = {id_of(best), weight};
  }
  mine.weight = rounded<T>(mine.weight / total);
  return mine;
}

}  // namespace rose::cuda
