// The multiplying half of grouped.cuh: what one warpgroup does.
#pragma once
#include "kernels/matmul/grouped_epilogue.cuh"
#include "kernels/matmul/grouped_shape.cuh"
#include "kernels/matmul/segments.cuh"
#include "kernels/matmul/token_e4m3.cuh"

namespace rose::cuda {

// Tokens of a shape that keeps them resident.
struct TokenRows {
  const __nv_bfloat16* x = nullptr;  // [.., columns of the weights]
  const int* experts = nullptr;      // [slots]
  int slots = 0;
  int share = 1;  // slots that read the same row of x
};

template <class Epilogue>
struct GroupedProduct {
  Tiles w;
  const uint8_t* records = nullptr;  // [segments, stages] of kRecordBytes
  SegmentList segments = {};
  TokenRows rows = {};  // instead of both
  Epilogue epilogue;
  // Whether what the list of segments comes from was complete when the kernel before began: then the first
  // weights are fetched before it ends.
  bool listed_early = false;
};

// The same in all lanes, which the compiler cannot know of an expression of threadIdx.
__device__ inline int uniform(int value) { return __shfl_sync(~0u, value, 0); }

// Tiles: every row tile of a segment, then the next segment. They are dealt round-robin, or in runs where a
// segment's tokens stay. Their number waits in shared memory: a register less in the loops.
template <class S>
__device__ __forceinline__ int first_tile(const volatile int& tiles, int block) {
  return S::kResident ? tiles * block / int(gridDim.x) : block;
}
template <class S, class Body>
__device__ __forceinline__ void for_each_tile(const Tiles& w, const volatile int& tiles,
                                              Body&& body) {
  const int row_tiles = (w.row_blocks + S::kRowGroups - 1) / S::kRowGroups;
  const int step = S::kResident ? 1 : gridDim.x;
  for (int item = first_tile<S>(tiles, blockIdx.x);
       item < (S::kResident ? first_tile<S>(tiles, blockIdx.x + 1) : tiles); item += step)
    body(item / row_tiles, item % row_tiles * S::kRowGroups);
}
template <class S>
__device__ __forceinline__ int count_tiles(const volatile int& tiles) {
  if (S::kResident) return first_tile<S>(tiles, blockIdx.x + 1) - first_tile<S>(tiles, blockIdx.x);
  return (tiles - int(blockIdx.x) + int(gridDim.x) - 1) / int(gridDim.x);
}

// What one warpgroup computes: 64 rows x kTokens, in registers; of all columns or, where they are split, of its
// pairs of units.
template <class S, class Epilogue>
struct Consumer {
  using Format = typename S::Format;
  static constexpr bool kBlockScaled = std::is_same_v<Format, GroupedFp8Block>;
  static constexpr int kSums = S::kTokens / 2;
  static constexpr int kFragment = Format::kFragment;

  const GroupedProduct<Epilogue>& op;
  const SegmentList& segments;
  const Ring<S>& ring;
  uint8_t* const out_stage;  // [warpgroups, tokens, 64] bf16 on their way out
  const int warpgroup;

  // Computed when needed: as members they would cost a register each.
  static __device__ __forceinline__ int thread() { return threadIdx.x % 128; }
  static __device__ __forceinline__ int lane() { return threadIdx.x % 32; }

  __device__ __forceinline__ void wait(const RingPosition<S>& at) const {
    barrier_wait(ring.full(at.offset), at.parity);
  }
  __device__ __forceinline__ void release(int stage) const {
    if (lane() == 0) barrier_arrive(ring.empty(stage));
  }

  __device__ __forceinline__ void multiply(float (&sum)[kSums], const uint32_t* a, int stage,
                                           int unit, bool add) const {
    const uint64_t tokens = operand<unit_bytes(Format::kForm)>(shared_address(
        S::kResident ? resident() + k * 2 * S::kTokenUnitBytes : ring.tokens(stage)));
    Format::template multiply<S::kTokens>(sum, a, ring.weights(stage, warpgroup, unit),
                                          tokens + unit * (S::kTokenUnitBytes >> 4), add);
  }

  // Scales of this thread's columns.
  struct Scales {
    float4 of[(S::kTokens + 15) / 16];
  };
  __device__ __forceinline__ Scales scales(int stage) const {
    Scales s;
    const float* from = S::kResident ? resident_scales() + k * 16 : ring.scales(stage);
#pragma unroll
    for (int i = 0; i < (S::kTokens + 15) / 16; ++i)
      s.of[i] = *reinterpret_cast<const float4*>(from + 16 * i + lane() % 4 * 4);
    return s;
  }

  // total += scale of the token x sum. The tensor core keeps about 14 bits of its E4M3 sums, so they may
  // not run for long.
  __device__ __forceinline__ static void promote(float (&total)[kSums], const float (&sum)[kSums],
                                                 const Scales& s) {
#pragma unroll
    for (int i = 0; i < kSums / 4; ++i) {
      const float4& f = s.of[i / 2];
      const float even = i % 2 ? f.z : f.x, odd = i % 2 ? f.w : f.y;
      total[4 * i + 0] += even * sum[4 * i + 0];
      total[4 * i + 1] += odd * sum[4 * i + 1];
      total[4 * i + 2] += even * sum[4 * i + 2];
      total[4 * i + 3] += odd * sum[4 * i + 3];
    }
  }

  // With weights that have a scale for their 64 rows and the stage's columns.
  const float* block_scale = nullptr;  // of the stage being multiplied
  __device__ __forceinline__ static void scale_all(Scales& s, float by) {
#pragma unroll
    for (float4& f : s.of) f.x *= by, f.y *= by, f.z *= by, f.w *= by;
  }

  // The stream of stages that this warpgroup multiplies runs on over the ends of tiles: one stage is
  // being multiplied, the next is expanded, the one after it is read from shared memory.
  RingPosition<S> now = {}, ahead = {};
  int left = 0;  // stages not yet read
  typename Format::Packed packed[2] = {};

  __device__ __forceinline__ void wait_ahead() const {
    if (left > 0) wait(ahead);
  }
  __device__ __forceinline__ void read_ahead() {  // past the end: leftovers, which nobody uses
    packed[0] = Format::Packed::load(ring.weights(ahead.offset, warpgroup, 0), thread());
    packed[1] = Format::Packed::load(ring.weights(ahead.offset, warpgroup, 1), thread());
    ahead.advance();
    --left;
  }
  // Where K ends within a stage there are fewer units; what is then expanded in their place is left over from
  // before, and not multiplied.
  __device__ __forceinline__ void expand(uint32_t (&a)[2 * kFragment]) const {
    Format::expand(a, packed[0]);
    Format::expand(a + kFragment, packed[1]);
  }

  // For the same reason as wgmma_keep this adds a zero that the compiler does not know: a plain copy would be dissolved
  // by giving both the same registers.
  __device__ __forceinline__ void copy(uint32_t (&to)[2 * kFragment],
                                       const uint32_t (&from)[2 * kFragment]) const {
    const uint32_t zero = uint32_t(op.w.units) >> 30;
#pragma unroll
    for (int i = 0; i < 2 * kFragment; ++i) to[i] = from[i] + zero;
  }

  // Multiplies a stage by the weights in `a`, meanwhile expands the one after it into `next`. Products
  // and their wait stand in one straight piece of code: carried around the loop, or behind a branch, the
  // compiler would wait after every product (C7514, C7518, C7520).
  template <int kUnits>
  __device__ __forceinline__ void step(float (&total)[kSums], const uint32_t (&a)[2 * kFragment],
                                       uint32_t (&next)[2 * kFragment]) {
    float sum[kSums];
    const int stage = now.offset;
    if constexpr (kUnits > 0) {
      wgmma_fence();
      if constexpr (S::kScaled) {
        multiply(sum, a, stage, 0, false);
        if constexpr (kUnits == 2) multiply(sum, a + kFragment, stage, 1, true);
      } else {
        multiply(total, a, stage, 0, true);
        if constexpr (kUnits == 2) multiply(total, a + kFragment, stage, 1, true);
      }
      wgmma_commit();
    }
    float of_block = 1;
    if constexpr (kBlockScaled) of_block = __ldg(block_scale++);  // it arrives while all multiply

    expand(next);
    wait_ahead();
    read_ahead();

    if constexpr (kUnits > 0) {
      Scales s;
      if constexpr (S::kScaled) s = scales(stage);
      if constexpr (kBlockScaled) scale_all(s, of_block);
      wgmma_wait<0>();
      if constexpr (S::kScaled) promote(total, sum, s);
      wgmma_keep(a);
    }
    release(stage);
    now.advance();
    k += S::kSplit;
  }

  // --- tokens that stay: two units of each pair, then the scales of all pairs ---
  int k = 0;  // the pair of units that is being multiplied
  __device__ __forceinline__ uint8_t* resident() const { return ring.base + S::kResidentAt; }
  __device__ __forceinline__ float* resident_scales() const {
    return reinterpret_cast<float*>(resident() + (op.w.units + 1) / 2 * 2 * S::kTokenUnitBytes);
  }
  // By all warpgroups. Eight lanes a pair, 16 columns each; two pairs at once, since a load waits behind those of
  // weights.
  __device__ __forceinline__ void lay_out(const Segment& segment, bool first) const {
    constexpr int kThreads = 128 * S::kWarpgroups, kApart = kThreads / 8;
    constexpr int kBarrier = 1 + S::kWarpgroups;
    if (!first) named_barrier_sync(kBarrier, kThreads);  // the last segment's have been read
    const int pairs = (op.w.units + 1) / 2, chunk = lane() % 8;
    for (int token = 0; token < segment.count; ++token) {
      const __nv_bfloat16* row =
          op.rows.x + int64_t(segments.row(segment, token)) * op.w.columns + chunk * 16;
      for (int pair = threadIdx.x / 8; pair < pairs; pair += 2 * kApart) {
        uint4 values[2][2] = {};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int column = (pair + i * kApart) * 2 * kTile;
          if (column + chunk * 16 >= op.w.columns) continue;
          values[i][0] = *reinterpret_cast<const uint4*>(row + column);
          values[i][1] = *reinterpret_cast<const uint4*>(row + column + 8);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int at = pair + i * kApart;
          if (at >= pairs) break;
          float scale;
          uint8_t* to = resident() + (2 * at + chunk / 4) * S::kTokenUnitBytes + token * 64;
          *reinterpret_cast<uint4*>(to + (chunk % 4 ^ token / 2 % 4) * 16) =
              sixteen_e4m3(values[i], scale);
          if (chunk == 0) resident_scales()[at * 16 + scale_slot(token)] = scale;
        }
      }
    }
    fence_shared_writes();
    named_barrier_sync(kBarrier, kThreads);
  }

  // --- columns that are split: one warpgroup, in turn, adds up what all have ---
  int turn = 0;  // tiles so far
  // Whether it is this one; then `total` is of all columns, added in the same order whoever does it.
  __device__ __forceinline__ bool add_parts(float (&total)[kSums]) {
    const int which = turn % 2;
    const uint32_t parity = turn / 2 % 2;
    const bool adds = turn++ % S::kSplit == warpgroup;
    barrier_wait(adds ? ring.parts_full(which) : ring.parts_empty(which),
                 adds ? parity : parity ^ 1);
    float sums[kSums] = {};
#pragma unroll
    for (int i = 0; i < kSums / 4; ++i) {
      const float4 mine =
          make_float4(total[4 * i], total[4 * i + 1], total[4 * i + 2], total[4 * i + 3]);
      if (!adds) ring.part(which, warpgroup, thread())[i] = mine;
#pragma unroll
      for (int part = 0; adds && part < S::kSplit; ++part) {
        const float4 of = part == warpgroup ? mine : ring.part(which, part, thread())[i];
        sums[4 * i] += of.x, sums[4 * i + 1] += of.y;
        sums[4 * i + 2] += of.z, sums[4 * i + 3] += of.w;
      }
    }
#pragma unroll
    for (int i = 0; i < kSums; ++i) total[i] = sums[i];
    barrier_arrive(adds ? ring.parts_empty(which) : ring.parts_full(which));
    return adds;
  }

  // The stage at the end of a tile that has fewer units.
  __device__ __forceinline__ void step_rest(float (&total)[kSums],
                                            const uint32_t (&a)[2 * kFragment],
                                            uint32_t (&next)[2 * kFragment]) {
    if constexpr (S::kSplit == 1) {
      step<1>(total, a, next);
    } else {
      const int mine = op.w.units % S::kStageUnits - 2 * warpgroup;
      if (mine > 1)
        step<2>(total, a, next);
      else if (mine == 1)
        step<1>(total, a, next);
      else
        step<0>(total, a, next);
    }
  }

  __device__ __forceinline__ RowTerms terms(int segment, int row_block) const {
    return {op.w, op.epilogue.bias, segments.at(segment, S::kTokens).expert, row_block};
  }
  __device__ __forceinline__ void finish(int segment, int row_block, const float (&total)[kSums],
                                         const RowTerms& terms) const {
    op.epilogue(total, terms, op.w, segments, segments.at(segment, S::kTokens), row_block,
                out_stage + warpgroup * S::kTokens * 128, 1 + warpgroup);
  }

  __device__ __forceinline__ void run(const volatile int& tiles) {
    const int stages = (op.w.units + S::kStageUnits - 1) / S::kStageUnits;
    left = count_tiles<S>(tiles) * stages;
    int held = -1;  // the segment whose tokens are laid out
    if constexpr (S::kResident)
      if (left > 0) {  // before the weights have come
        held = first_tile<S>(tiles, blockIdx.x) / op.w.row_blocks;
        lay_out(segments.at(held, S::kTokens), true);
      }

    uint32_t even[2 * kFragment], odd[2 * kFragment];
    wait_ahead();
    read_ahead();
    expand(even);
    wait_ahead();
    read_ahead();

    for_each_tile<S>(op.w, tiles, [&](int segment, int row_block) {
      if constexpr (S::kResident) {
        k = warpgroup;
        if (segment != held) lay_out(segments.at(held = segment, S::kTokens), false);
      }
      float total[kSums];
#pragma unroll
      for (float& t : total) t = 0;
      const int row_group = S::kSplit == 1 ? warpgroup : 0;
      if constexpr (kBlockScaled) {
        const int block = op.segments.at(segment, S::kTokens).expert * op.w.row_blocks +
                          min(row_block + row_group, op.w.row_blocks - 1);
        block_scale = op.w.block_scales + int64_t(block) * stages;
      }
      // Few registers are in use: what the sums meet at the end can be on its way.
      RowTerms early;
      if constexpr (S::kResident) early = terms(segment, row_block);

      const bool rest = op.w.units % S::kStageUnits;
      const int full_stages = stages - rest;

      // In pairs, so that the two sets of registers change places; at the end of a tile the next stage is
      // in `even` again.
#pragma unroll 1
      for (int i = 1; i < full_stages; i += 2) {
        step<2>(total, even, odd);
        step<2>(total, odd, even);
      }
      if (full_stages % 2) {
        step<2>(total, even, odd);
        if (rest)
          step_rest(total, odd, even);
        else
          copy(even, odd);
      } else if (rest) {
        step_rest(total, even, odd);
        copy(even, odd);
      }

      if constexpr (S::kSplit > 1)
        if (!add_parts(total)) return;
      if (row_block + row_group >= op.w.row_blocks) return;
      if constexpr (S::kResident)
        finish(segment, row_block + row_group, total, early);
      else
        finish(segment, row_block + row_group, total, terms(segment, row_block + row_group));
    });
  }
};

}  // namespace rose::cuda
