// Where all blocks of a kernel wait for each other, while the warps that work go on as far as they can: one warp
// of each block, the conductor, does the waiting.
//
//   worker     ... writes -> announce() ... reads nothing of other blocks ... await() -> reads
//   conductor      arrive_and_wait(), once for each pair of them; then let_workers_go()
//
// All blocks must run at once.
#pragma once
#include "device/warp.cuh"

namespace rose::cuda {

// Arrivals of blocks at all barriers of a launch, counted in several places since adding to one takes a while; and blocks
// that have passed the last. 0 between launches.
struct GridCounters {
  static constexpr int kParts = 4;
  struct alignas(128) Part {
    uint32_t arrived;
  } part[kParts];
  uint32_t left;
};

template <int kWorkers>  // threads
struct GridBarrier {
  static constexpr int kThreads = kWorkers + kWarp;
  static constexpr int kAnnounce = 1, kGo = 2, kAmongWorkers = 3;  // named barriers

  static __device__ __forceinline__ void announce() { named_barrier_arrive(kAnnounce, kThreads); }
  static __device__ __forceinline__ void await() { named_barrier_sync(kGo, kThreads); }
  static __device__ __forceinline__ void sync_workers() {
    named_barrier_sync(kAmongWorkers, kWorkers);
  }

  // --- the conductor's, by its whole warp ---
  GridCounters* counters;
  uint32_t wanted = 0;  // of this lane's part

  __device__ __forceinline__ void arrive_and_wait() {
    constexpr int kParts = GridCounters::kParts;
    const int lane = threadIdx.x % kWarp;
    named_barrier_sync(kAnnounce, kThreads);
    if (lane == 0) add_release(&counters->part[blockIdx.x % kParts].arrived, 1);
    if (lane < kParts) {
      wanted += (gridDim.x - lane + kParts - 1) / kParts;
      while (load_acquire(&counters->part[lane].arrived) < wanted) {
      }
    }
    __syncwarp();
  }
  __device__ __forceinline__ void let_workers_go() { named_barrier_arrive(kGo, kThreads); }

  __device__ __forceinline__ void leave() {
    if (threadIdx.x % kWarp == 0 && atomicAdd(&counters->left, 1) == gridDim.x - 1) {
      for (GridCounters::Part& part : counters->part) part.arrived = 0;
      counters->left = 0;
    }
  }
};

}  // namespace rose::cuda
