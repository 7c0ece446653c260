// How the tokens of a product are cut into segments: up to so many tokens that share a matrix.
#pragma once
#include "kernels/pack/tiles.cuh"

namespace rose::cuda {

struct Segment {
  int expert;
  int first;  // of the sorted list of slots; of a dense product: the token
  int count;
};

// Of a mixture of experts: a list on the device. Of a dense product: all tokens, cut evenly.
struct SegmentList {
  int tokens = 0;
  const Segment* list = nullptr;
  const int* length = nullptr;
  const int* slots = nullptr;  // [slots] sorted by expert; row slot / share of the tokens
  int share = 1;

  __device__ __forceinline__ int count(int most) const {
    return list ? *length : (tokens + most - 1) / most;
  }
  __device__ __forceinline__ Segment at(int i, int most) const {
    if (list) return list[i];
    return {0, i * most, min(most, tokens - i * most)};
  }
  // The slot that token `i` of a segment is, and its row of x.
  __device__ __forceinline__ int slot(const Segment& segment, int i) const {
    return list ? slots[segment.first + i] : segment.first + i;
  }
  __device__ __forceinline__ int row(const Segment& segment, int i) const {
    return list ? slots[segment.first + i] / share : segment.first + i;
  }
};

// Up to so many slots and experts, each block can make the list for itself, which takes less time than
// another kernel does to start.
constexpr int kBlockListSlots = 256;
constexpr int kBlockListExperts = 256;

template <int kLength>
struct BlockList {  // in shared memory
  Segment segments[kBlockListExperts + kBlockListSlots / kLength];
  int sorted[kBlockListSlots];
  int next[kBlockListExperts];  // slots of an expert; where its next one goes
  int count;
  uint8_t expert_of[kBlockListSlots];

  // One warp makes it, from the experts that the slots chose. Slots of an expert stay in order.
  __device__ void make(const int* experts, int slots) {
    if (slots > 32 || !make_small(experts, slots)) make_any(experts, slots);
  }

 private:
  // Up to a slot a lane, if no expert has more than a segment holds. Segments in the order of their first slot.
  __device__ bool make_small(const int* experts, int slots) {
    const int lane = threadIdx.x % 32;
    const int e = lane < slots ? __ldcg(experts + lane) : -1 - lane;
    const uint32_t same = __match_any_sync(~0u, e);
    const int rank = __popc(same & ((1u << lane) - 1)), of_expert = __popc(same);
    if (__any_sync(~0u, of_expert > kLength)) return false;
    const bool leads = rank == 0 && lane < slots;
    int end = leads ? of_expert : 0;  // of the slots up to this segment's
#pragma unroll
    for (int other = 1; other < 32; other *= 2) {
      const int a = __shfl_up_sync(~0u, end, other);
      if (lane >= other) end += a;
    }
    const uint32_t leaders = __ballot_sync(~0u, leads);
    if (leads) segments[__popc(leaders & ((1u << lane) - 1))] = {e, end - of_expert, of_expert};
    const int first = __shfl_sync(~0u, end - of_expert, __ffs(same) - 1);
    if (lane < slots) sorted[first + rank] = lane;
    if (lane == 0) count = __popc(leaders);
    return true;
  }

  __device__ void make_any(const int* experts, int slots) {
    const int lane = threadIdx.x % 32;
    const auto each_slot = [&](auto&& expert, auto&& body) {
      for (int first = 0; first < slots; first += 32) {
        const int e = first + lane < slots ? expert(first + lane) : -1;
        const uint32_t same = __match_any_sync(~0u, e);
        const int rank = __popc(same & ((1u << lane) - 1));
        if (e >= 0) body(first + lane, e, rank);
        __syncwarp();
        if (e >= 0 && rank == 0) next[e] += __popc(same);
        __syncwarp();
      }
    };
    for (int e = lane; e < kBlockListExperts; e += 32) next[e] = 0;
    __syncwarp();
    // Past the first cache: another kernel has written them while this block may have been running.
    each_slot([&](int slot) { return __ldcg(experts + slot); },
              [&](int slot, int e, int) { expert_of[slot] = uint8_t(e); });

    constexpr int kMine = kBlockListExperts / 32;
    int slot_sum = 0, segment_sum = 0;
    for (int i = 0; i < kMine; ++i) {
      const int of_expert = next[lane * kMine + i];
      slot_sum += of_expert, segment_sum += (of_expert + kLength - 1) / kLength;
    }
    int slot = slot_sum, segment = segment_sum;
#pragma unroll
    for (int other = 1; other < 32; other *= 2) {
      const int a = __shfl_up_sync(~0u, slot, other), b = __shfl_up_sync(~0u, segment, other);
      if (lane >= other) slot += a, segment += b;
    }
    if (lane == 31) count = segment;
    slot -= slot_sum, segment -= segment_sum;
    for (int i = 0; i < kMine; ++i) {
      const int e = lane * kMine + i, of_expert = next[e];
      next[e] = slot;
      for (int at = 0; at < of_expert; at += kLength)
        segments[segment++] = {e, slot + at, min(kLength, of_expert - at)};
      slot += of_expert;
    }
    __syncwarp();
    each_slot([&](int slot) { return int(expert_of[slot]); },
              [&](int slot, int e, int rank) { sorted[next[e] + rank] = slot; });
  }
};

// The scale of a row: 1 of bf16 weights.
__device__ inline float scale_of(const Tiles& w, int expert, int row) {
  return w.row_scales ? w.row_scales[int64_t(expert) * w.row_blocks * kTile + row] : 1;
}

}  // namespace rose::cuda
