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
  // The row of x that token `i` of a segment is.
  __device__ __forceinline__ int row(const Segment& segment, int i) const {
    return list ? slots[segment.first + i] / share : segment.first + i;
  }
};

// The scale of a row: 1 of bf16 weights.
__device__ inline float scale_of(const Tiles& w, int expert, int row) {
  return w.row_scales ? w.row_scales[int64_t(expert) * w.row_blocks * kTile + row] : 1;
}

}  // namespace rose::cuda
