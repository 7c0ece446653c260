// Products with many tokens: the tensor cores' warpgroup products (wgmma), weights as the M side, 64 rows a
// warpgroup, tokens as the N side. One kernel for a dense matrix and for a mixture of experts, whose
// tokens come sorted by expert, in segments.
//
// Some warpgroups multiply and some warps load; they share a ring of stages in shared memory (a stage is two
// units: 128 columns of K). A block goes from tile to tile without draining it. Many tokens are laid out
// beforehand (token_records.cuh): a stage's tokens and their scales are one copy.
//
//   tensor core   | products of stage i ........ | (of other warpgroups)
//   this warp     | expand i+1, read i+2, scales | promote i | release i
#pragma once
#include <algorithm>

#include "device/launch.cuh"
#include "kernels/matmul/grouped_consumer.cuh"
#include "kernels/matmul/grouped_epilogue.cuh"
#include "kernels/matmul/token_records.cuh"

namespace rose::cuda {

// One thread of each loading warp keeps the ring full; the warps take stages in turn, also over the ends
// of tiles.
template <class S, class Epilogue>
__device__ __forceinline__ void produce(const GroupedProduct<Epilogue>& op,
                                        const SegmentList& segments, const Ring<S>& ring,
                                        int loader, const volatile int& tiles) {
  using Format = typename S::Format;
  const int stages = (op.w.units + S::kStageUnits - 1) / S::kStageUnits;
  RingPosition<S> at;
  at.advance(loader);
  int first = loader;          // our first stage in a tile
  bool waited = S::kResident;  // for the kernel that lays out the tokens

  for_each_tile<S>(op.w, tiles, [&](int segment, int row_block) {
    const int expert = segments.at(segment, S::kTokens).expert;
    const int64_t first_block = int64_t(expert) * op.w.row_blocks;
    const uint8_t* weights[S::kRowGroups];
    for (int r = 0; r < S::kRowGroups; ++r) {
      const int64_t block = first_block + min(row_block + r, op.w.row_blocks - 1);
      weights[r] = op.w.data + block * op.w.units * Format::kTileBytes;
    }
    const auto load_weights = [&](int stage, int offset) {
      const int from = stage * S::kStageUnits;
      const int bytes = min(S::kStageUnits, op.w.units - from) * Format::kTileBytes;
      uint64_t* full = ring.full(offset);
      barrier_expect(full, S::kRowGroups * bytes + (S::kResident ? 0 : S::kRecordBytes));
      for (int r = 0; r < S::kRowGroups; ++r)
        bulk_load(ring.weights(offset, r, 0), weights[r] + from * Format::kTileBytes, bytes, full);
    };
    int stage = first;
    int early = 0;  // stages whose weights are on their way
    if (!waited) {
      if (op.listed_early) {
        RingPosition<S> to = at;
        early = min(stages, S::kStages);
        for (int s = stage; s < early; s += S::kLoaders, to.advance(S::kLoaders))
          load_weights(s, to.offset);
      }
      wait_for_previous_kernel();
      let_next_kernel_start();
      waited = true;
    }
    const uint8_t* records = op.records + int64_t(segment) * stages * S::kRecordBytes;
    for (; stage < stages; stage += S::kLoaders, at.advance(S::kLoaders)) {
      if (stage >= early) {
        barrier_wait(ring.empty(at.offset), at.parity ^ 1);
        load_weights(stage, at.offset);
      }
      if constexpr (!S::kResident)
        bulk_load(ring.tokens(at.offset), records + stage * S::kRecordBytes, S::kRecordBytes,
                  ring.full(at.offset));
    }
    first = stage - stages;
  });
  if (!waited) {  // nothing to do, but the kernels after this rely on those before it having ended
    wait_for_previous_kernel();
    let_next_kernel_start();
  }
}

// The list of segments that a block makes for itself, if it does.
template <int kLength>
struct OwnSegments {
  SegmentList segments;
  BlockList<kLength> list;
};
template <>
struct OwnSegments<0> {};

template <class Epilogue, int kLength>
__device__ __forceinline__ const SegmentList& segments_of(const GroupedProduct<Epilogue>& op,
                                                          const OwnSegments<kLength>& own) {
  if constexpr (kLength > 0)
    return own.segments;
  else
    return op.segments;
}

//   grid   persistent: min(tiles, multiprocessors x kBlocks)
//   block  kWarpgroups, then kLoaders warps
//   shared shared_bytes
template <class S, class Epilogue>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    grouped_kernel(const __grid_constant__ GroupedProduct<Epilogue> op) {
  extern __shared__ uint8_t dynamic[];
  __shared__ int tiles;
  __shared__ OwnSegments<S::kResident ? S::kTokens : 0> own;
  const Ring<S> ring = {dynamic + (-shared_address(dynamic) & 1023)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::kStages; ++i) {
      barrier_init(ring.full(i * S::kStageBytes), 1);
      barrier_init(ring.empty(i * S::kStageBytes), S::kWarpgroups * 4);  // by warp
    }
    if constexpr (S::kSplit > 1)
      for (int i = 0; i < 2; ++i) {
        barrier_init(ring.parts_full(i), (S::kSplit - 1) * 128);  // by thread
        barrier_init(ring.parts_empty(i), 128);
      }
    barrier_init_done();
  }
  if (!op.listed_early) wait_for_previous_kernel();
  if constexpr (S::kResident)
    if (threadIdx.x < kWarp) {
      own.list.make(op.rows.experts, op.rows.slots);
      own.segments = {.list = own.list.segments,
                      .length = &own.list.count,
                      .slots = own.list.sorted,
                      .share = op.rows.share};
      __syncwarp();
    }
  // Left in memory: in registers it would cost more than the reading.
  const SegmentList& segments = segments_of(op, own);
  if (threadIdx.x == 0)
    tiles = segments.count(S::kTokens) * ((op.w.row_blocks + S::kRowGroups - 1) / S::kRowGroups);
  __syncthreads();

  const int warpgroup = uniform(threadIdx.x / 128);
  if (warpgroup == S::kWarpgroups) {
    if constexpr (S::kMoveRegisters) give_registers<S::kLoaderRegisters>();
    const int loader = uniform(threadIdx.x / kWarp) - 4 * S::kWarpgroups;
    if (threadIdx.x % kWarp == 0) produce<S>(op, segments, ring, loader, tiles);
  } else {
    if constexpr (S::kMoveRegisters) take_registers<S::kConsumerRegisters>();
    if constexpr (S::kResident) {  // these read the tokens, not the loaders
      if (op.listed_early) wait_for_previous_kernel();
      let_next_kernel_start();
    }
    Consumer<S, Epilogue> consumer = {
        .op = op,
        .segments = segments,
        .ring = ring,
        .out_stage = ring.base + S::kResidentAt + (S::shared_bytes(op.w.units) - S::kSharedBytes),
        .warpgroup = warpgroup,
    };
    consumer.run(tiles);
  }
}

template <class S, class Epilogue>
void grouped_product(const char* name, Stream& stream, int most_segments,
                     const GroupedProduct<Epilogue>& product) {
  const int tiles = most_segments * ((product.w.row_blocks + S::kRowGroups - 1) / S::kRowGroups);
  launch<grouped_kernel<S, Epilogue>>(
      name,
      {.blocks = dim3(unsigned(std::min(tiles, multiprocessors() * S::kBlocks))),
       .threads = S::kThreads,
       .shared_bytes = S::shared_bytes(product.w.units)},
      stream, product);
}

}  // namespace rose::cuda
