// Products with many tokens: the tensor cores' warpgroup products (wgmma), weights as the M side, 64 rows a
// warpgroup, tokens as the N side. One kernel for a dense matrix and for a mixture of experts, whose
// tokens come sorted by expert, in segments.
//
// Some warpgroups multiply and some warps load; they share a ring of stages in shared memory (a stage is two
// units: 128 columns of K). A block goes from tile to tile without draining it. Tokens are laid out
// beforehand (token_records.cuh): a stage's tokens and their scales are one copy.
//
//   tensor core   | products of stage i ........ | (of other warpgroups)
//   this warp     | expand i+1, read i+2, scales | promote i | release i
#pragma once
#include <algorithm>

#include "device/launch.cuh"
#include "device/warp.cuh"
#include "device/wgmma.cuh"
#include "kernels/matmul/segments.cuh"
#include "kernels/pack/tiles.cuh"

namespace rose::cuda {

// --- formats: how a 64 x 64 tile of weights reaches the tensor cores ------------------------------

// What a thread reads of an MXFP4 tile before it expands it.
struct PackedMxfp4 {
  uint4 codes;         // of the four words
  uint32_t exponents;  // a byte each

  static __device__ __forceinline__ PackedMxfp4 load(const uint8_t* tile, int thread) {
    const int row_pair = thread / 32 * 8 + thread % 32 / 4;
    return {*reinterpret_cast<const uint4*>(tile + 16 * thread),
            *reinterpret_cast<const uint32_t*>(tile + kCodeBytes + 4 * row_pair)};
  }
  template <int kWord>
  __device__ __forceinline__ uint32_t exponent() const {
    return permute(exponents, 0, 0x4440 + kWord);
  }
};

// Nothing, where the tensor core reads the weights from shared memory itself.
struct PackedNothing {
  static __device__ PackedNothing load(const uint8_t*, int) { return {}; }
};

struct GroupedMxfp4E4m3 {
  using Packed = PackedMxfp4;
  static constexpr int kTileBytes = tile_bytes(Format::mxfp4_fp8);
  static constexpr int kTokenBytes = 64;  // one token's 64 columns
  static constexpr int kFragment = 8;     // registers of A per unit and thread
  static constexpr bool kScaled = true;   // tokens are E4M3 with a scale a stage

  // Eight codes to two registers of four E4M3 each: as in stream.cuh, but the table holds whole E4M3
  // numbers (eight to a binade), b = 8 being the lowest that has all of them.
  static __device__ __forceinline__ void expand(uint32_t codes, uint32_t b, uint32_t& x,
                                                uint32_t& y) {
    const uint32_t low = b * 0x08080800u + (0x0c080000u - 7 * 0x08080800u);
    const uint32_t high = b * 0x08080808u + (0x1c181410u - 7 * 0x08080808u);
    const uint32_t magnitudes = codes & 0x77777777u;
    x = and_or(codes, 0x80808080u, permute(low, high, magnitudes));
    y = and_or(codes << 4, 0x80808080u, permute(low, high, magnitudes >> 16));
  }
  static __device__ __forceinline__ void expand(uint32_t* a, const Packed& packed) {
    expand(packed.codes.x, packed.exponent<0>(), a[0], a[2]);
    expand(packed.codes.y, packed.exponent<1>(), a[1], a[3]);
    expand(packed.codes.z, packed.exponent<2>(), a[4], a[6]);
    expand(packed.codes.w, packed.exponent<3>(), a[5], a[7]);
  }
  template <int kTokens>
  static __device__ __forceinline__ void multiply(float (&sum)[kTokens / 2], const uint32_t* a,
                                                  const uint8_t*, uint64_t tokens, bool add) {
    Wgmma<kTokens>::e4m3(sum, a, tokens, add);
    Wgmma<kTokens>::e4m3(sum, a + 4, tokens + (32 >> 4), true);
  }
};

// The same bytes as f16, for f16 tokens whose columns are permuted to match (token_records.cuh).
struct GroupedMxfp4F16 {
  using Packed = PackedMxfp4;
  static constexpr int kTileBytes = tile_bytes(Format::mxfp4);
  static constexpr int kTokenBytes = 128;
  static constexpr int kFragment = 16;
  static constexpr bool kScaled = false;

  static __device__ __forceinline__ void expand(uint32_t codes, uint32_t b, uint32_t* a) {
    const uint32_t low = b * 0x04040400u + 0x0a080400u;
    const uint32_t high = b * 0x04040404u + 0x12100e0cu;
    const uint32_t magnitudes = codes & 0x77777777u;
    const uint32_t x = and_or(codes, 0x80808080u, permute(low, high, magnitudes));
    const uint32_t y = and_or(codes << 4, 0x80808080u, permute(low, high, magnitudes >> 16));
    a[0] = permute(x, 0, 0x1404), a[2] = permute(x, 0, 0x3424);
    a[4] = permute(y, 0, 0x1404), a[6] = permute(y, 0, 0x3424);
  }
  static __device__ __forceinline__ void expand(uint32_t* a, const Packed& packed) {
    expand(packed.codes.x, packed.exponent<0>(), a);
    expand(packed.codes.y, packed.exponent<1>(), a + 1);
    expand(packed.codes.z, packed.exponent<2>(), a + 8);
    expand(packed.codes.w, packed.exponent<3>(), a + 9);
  }
  template <int kTokens>
  static __device__ __forceinline__ void multiply(float (&sum)[kTokens / 2], const uint32_t* a,
                                                  const uint8_t*, uint64_t tokens, bool add) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      Wgmma<kTokens>::f16(sum, a + 4 * k, tokens + k * (32 >> 4), add || k > 0);
  }
};

struct GroupedFp8 {
  using Packed = PackedNothing;
  static constexpr int kTileBytes = tile_bytes(Format::fp8);
  static constexpr int kTokenBytes = 64;
  static constexpr int kFragment = 1;  // unused
  static constexpr bool kScaled = true;

  static __device__ __forceinline__ void expand(uint32_t*, const Packed&) {}
  template <int kTokens>
  static __device__ __forceinline__ void multiply(float (&sum)[kTokens / 2], const uint32_t*,
                                                  const uint8_t* tile, uint64_t tokens, bool add) {
    const uint64_t weights = operand<64>(shared_address(tile));
    Wgmma<kTokens>::e4m3_shared(sum, weights, tokens, add);
    Wgmma<kTokens>::e4m3_shared(sum, weights + (32 >> 4), tokens + (32 >> 4), true);
  }
};

struct GroupedBf16 {
  using Packed = PackedNothing;
  static constexpr int kTileBytes = tile_bytes(Format::bf16);
  static constexpr int kTokenBytes = 128;
  static constexpr int kFragment = 1;
  static constexpr bool kScaled = false;

  static __device__ __forceinline__ void expand(uint32_t*, const Packed&) {}
  template <int kTokens>
  static __device__ __forceinline__ void multiply(float (&sum)[kTokens / 2], const uint32_t*,
                                                  const uint8_t* tile, uint64_t tokens, bool add) {
    const uint64_t weights = operand<128>(shared_address(tile));
#pragma unroll
    for (int k = 0; k < 4; ++k)
      Wgmma<kTokens>::bf16_shared(sum, weights + k * (32 >> 4), tokens + k * (32 >> 4),
                                  add || k > 0);
  }
};

// --- the shape of a kernel ----------------------------------------------------------------------

//   Format      how weights are stored and expanded
//   tokens      N: 32, 64, 128
//   row_groups  warpgroups side by side, 64 rows each, sharing the token tile
//   stages      depth of the ring
//   blocks      resident on a multiprocessor
template <class Format_, int tokens_, int row_groups_, int stages_, int blocks_>
struct GroupedShape {
  using Format = Format_;
  static constexpr int kTokens = tokens_;
  static constexpr int kRowGroups = row_groups_;
  static constexpr int kStages = stages_;
  static constexpr int kBlocks = blocks_;

  // A quarter of the multiprocessor has 512 registers per lane, and each warpgroup a warp in every quarter.
  // Wide token tiles need more than an equal share, so there the loaders are a whole warpgroup that gives
  // its registers away.
  static constexpr bool kMoveRegisters = kTokens >= 32;
  static constexpr int kLoaders = kMoveRegisters ? 4 : 1;
  static constexpr int kThreads = 128 * kRowGroups + 32 * kLoaders;
  static constexpr int kLoaderRegisters = kRowGroups == 2 && kBlocks == 1 ? 56 : 32;
  static constexpr int kLaunchRegisters = 512 / (kRowGroups + 1) / kBlocks / 8 * 8;
  static constexpr int kWanted =
      (kLaunchRegisters * (kRowGroups + 1) - kLoaderRegisters) / kRowGroups / 8 * 8;
  static constexpr int kConsumerRegisters = kWanted < 240 ? kWanted : 240;

  static constexpr int kTokenUnitBytes = kTokens * Format::kTokenBytes;
  static constexpr int kTokenStageBytes = 2 * kTokenUnitBytes;
  static constexpr int kScaleStageBytes = Format::kScaled ? kTokens * 4 : 0;
  static constexpr int kRecordBytes = kTokenStageBytes + kScaleStageBytes;
  // A stage in shared memory: tokens, scales, weights, and its two barriers. Everything a thread needs of it
  // is at a constant distance from its start.
  static constexpr int kScalesAt = kTokenStageBytes;
  static constexpr int kWeightsAt = kScalesAt + (kScaleStageBytes + 1023) / 1024 * 1024;
  static constexpr int kFullAt = kWeightsAt + 2 * kRowGroups * Format::kTileBytes;
  static constexpr int kEmptyAt = kFullAt + 8;
  static constexpr int kStageBytes = (kEmptyAt + 8 + 1023) / 1024 * 1024;  // as the swizzle needs
  static constexpr int kOutBytes = kRowGroups * kTokens * 128;
  static constexpr int kSharedBytes = kStages * kStageBytes + kOutBytes + 1024;
  static_assert(kSharedBytes * kBlocks <= 227 << 10);
};

// Where the scale of a token column lies: the four columns that a thread needs out of 16 are adjacent.
__host__ __device__ constexpr int scale_slot(int column) {
  return column / 16 * 16 + column % 8 / 2 * 4 + column / 8 % 2 * 2 + column % 2;
}

template <class Epilogue>
struct GroupedProduct {
  Tiles w;
  const uint8_t* records;  // [segments, stages] of kRecordBytes
  SegmentList segments;
  Epilogue epilogue;
  // Whether the list of segments was complete when the kernel before began: then the first weights are
  // fetched before it ends.
  bool listed_early = false;
};

// The same in all lanes, which the compiler cannot know of an expression of threadIdx.
__device__ inline int uniform(int value) { return __shfl_sync(~0u, value, 0); }

// A position in the ring: a stage, and the parity of how often it has been used.
template <class S>
struct RingPosition {
  int offset = 0;  // bytes from the start of the ring
  uint32_t parity = 0;
  __device__ __forceinline__ void advance(int stages = 1) {
    offset += stages * S::kStageBytes;
    if (offset >= S::kStages * S::kStageBytes) offset -= S::kStages * S::kStageBytes, parity ^= 1;
  }
};

template <class S>
struct Ring {
  uint8_t* base;

  __device__ uint8_t* tokens(int stage) const { return base + stage; }
  __device__ uint8_t* weights(int stage, int row_group, int unit) const {
    return base + stage + S::kWeightsAt + (2 * row_group + unit) * S::Format::kTileBytes;
  }
  __device__ const float* scales(int stage) const {
    return reinterpret_cast<const float*>(base + stage + S::kScalesAt);
  }
  __device__ uint64_t* full(int stage) const {  // the bytes have landed
    return reinterpret_cast<uint64_t*>(base + stage + S::kFullAt);
  }
  __device__ uint64_t* empty(int stage) const {  // all readers are done
    return reinterpret_cast<uint64_t*>(base + stage + S::kEmptyAt);
  }
};

// Tiles are dealt round-robin: every row tile of a segment, then the next segment.
// Their number waits in shared memory: a register less in the loops.
template <class S, class Body>
__device__ __forceinline__ void for_each_tile(const Tiles& w, const volatile int& tiles,
                                              Body&& body) {
  const int row_tiles = (w.row_blocks + S::kRowGroups - 1) / S::kRowGroups;
  for (int item = blockIdx.x; item < tiles; item += gridDim.x)
    body(item / row_tiles, item % row_tiles * S::kRowGroups);
}

// One thread of each loading warp keeps the ring full; the warps take stages in turn, also over the ends
// of tiles.
template <class S, class Epilogue>
__device__ __forceinline__ void produce(const GroupedProduct<Epilogue>& op, const Ring<S>& ring,
                                        int loader, const volatile int& tiles) {
  using Format = typename S::Format;
  const int stages = (op.w.units + 1) / 2;
  RingPosition<S> at;
  at.advance(loader);
  int first = loader;   // our first stage in a tile
  bool waited = false;  // for the kernel that lays out the tokens

  for_each_tile<S>(op.w, tiles, [&](int segment, int row_block) {
    const int64_t first_block =
        int64_t(op.segments.at(segment, S::kTokens).expert) * op.w.row_blocks;
    const uint8_t* weights[S::kRowGroups];
    for (int r = 0; r < S::kRowGroups; ++r) {
      const int64_t block = first_block + min(row_block + r, op.w.row_blocks - 1);
      weights[r] = op.w.data + block * op.w.units * Format::kTileBytes;
    }
    const uint8_t* records = op.records + int64_t(segment) * stages * S::kRecordBytes;

    const auto load_weights = [&](int stage, int offset) {
      const int bytes = (2 * stage + 1 < op.w.units ? 2 : 1) * Format::kTileBytes;
      uint64_t* full = ring.full(offset);
      barrier_expect(full, S::kRowGroups * bytes + S::kRecordBytes);
      for (int r = 0; r < S::kRowGroups; ++r)
        bulk_load(ring.weights(offset, r, 0), weights[r] + stage * 2 * Format::kTileBytes, bytes,
                  full);
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
    for (; stage < stages; stage += S::kLoaders, at.advance(S::kLoaders)) {
      if (stage >= early) {
        barrier_wait(ring.empty(at.offset), at.parity ^ 1);
        load_weights(stage, at.offset);
      }
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

// What one warpgroup computes: 64 rows x kTokens, in registers.
template <class S, class Epilogue>
struct Consumer {
  using Format = typename S::Format;
  static constexpr int kSums = S::kTokens / 2;
  static constexpr int kFragment = Format::kFragment;

  const GroupedProduct<Epilogue>& op;
  const Ring<S>& ring;
  uint8_t* const out_stage;  // [row_groups, tokens, 64] bf16 on their way out
  const int row_group;

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
    const uint64_t tokens = operand<Format::kTokenBytes>(shared_address(ring.tokens(stage)));
    Format::template multiply<S::kTokens>(sum, a, ring.weights(stage, row_group, unit),
                                          tokens + unit * (S::kTokenUnitBytes >> 4), add);
  }

  // Scales of this thread's columns.
  struct Scales {
    float4 of[S::kTokens / 16];
  };
  __device__ __forceinline__ Scales scales(int stage) const {
    Scales s;
    const float* from = ring.scales(stage);
#pragma unroll
    for (int i = 0; i < S::kTokens / 16; ++i)
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

  // The stream of stages that this warpgroup multiplies runs on over the ends of tiles: one stage is
  // being multiplied, the next is expanded, the one after it is read from shared memory.
  RingPosition<S> now = {}, ahead = {};
  int left = 0;  // stages not yet read
  typename Format::Packed packed[2] = {};

  __device__ __forceinline__ void wait_ahead() const {
    if (left > 0) wait(ahead);
  }
  __device__ __forceinline__ void read_ahead() {  // past the end: leftovers, which nobody uses
    packed[0] = Format::Packed::load(ring.weights(ahead.offset, row_group, 0), thread());
    packed[1] = Format::Packed::load(ring.weights(ahead.offset, row_group, 1), thread());
    ahead.advance();
    --left;
  }
  // A stage has one unit where K ends with half a stage; what is then expanded in place of the second is
  // left over from before, and not multiplied.
  __device__ __forceinline__ void expand(uint32_t (&a)[2 * kFragment]) const {
    Format::expand(a, packed[0]);
    Format::expand(a + kFragment, packed[1]);
  }

  // The tensor core has read the registers only by now. Without this use of them the compiler takes them
  // to be free as soon as the product is issued, and expands into them (C7513).
  static __device__ __forceinline__ void keep(const uint32_t (&a)[2 * kFragment]) {
#pragma unroll
    for (int i = 0; i < 2 * kFragment; ++i) asm volatile("" ::"r"(a[i]));
  }
  // For the same reason this adds a zero that the compiler does not know: a plain copy would be dissolved
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
    wgmma_fence();
    if constexpr (Format::kScaled) {
      multiply(sum, a, stage, 0, false);
      if constexpr (kUnits == 2) multiply(sum, a + kFragment, stage, 1, true);
    } else {
      multiply(total, a, stage, 0, true);
      if constexpr (kUnits == 2) multiply(total, a + kFragment, stage, 1, true);
    }
    wgmma_commit();

    expand(next);
    wait_ahead();
    read_ahead();

    Scales s;
    if constexpr (Format::kScaled) s = scales(stage);
    wgmma_wait<0>();
    if constexpr (Format::kScaled) promote(total, sum, s);
    keep(a);
    release(stage);
    now.advance();
  }

  __device__ __forceinline__ void run(const volatile int& tiles) {
    const int stages = (op.w.units + 1) / 2;
    left = (tiles - int(blockIdx.x) + int(gridDim.x) - 1) / int(gridDim.x) * stages;

    uint32_t even[2 * kFragment], odd[2 * kFragment];
    wait_ahead();
    read_ahead();
    expand(even);
    wait_ahead();
    read_ahead();

    for_each_tile<S>(op.w, tiles, [&](int segment, int row_block) {
      float total[kSums];
#pragma unroll
      for (float& t : total) t = 0;
      const bool half = op.w.units % 2;
      const int full_stages = stages - half;

      // In pairs, so that the two sets of registers change places; at the end of a tile the next stage is
      // in `even` again.
#pragma unroll 1
      for (int i = 1; i < full_stages; i += 2) {
        step<2>(total, even, odd);
        step<2>(total, odd, even);
      }
      if (full_stages % 2) {
        step<2>(total, even, odd);
        if (half)
          step<1>(total, odd, even);
        else
          copy(even, odd);
      } else if (half) {
        step<1>(total, even, odd);
        copy(even, odd);
      }
      if (row_block + row_group < op.w.row_blocks)
        op.epilogue(total, op.w, op.segments.at(segment, S::kTokens), row_block + row_group,
                    out_stage + row_group * S::kTokens * 128, 1 + row_group);
    });
  }
};

//   grid   persistent: min(tiles, multiprocessors x kBlocks)
//   block  kRowGroups warpgroups, then kLoaders warps
//   shared kSharedBytes
template <class S, class Epilogue>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    grouped_kernel(const __grid_constant__ GroupedProduct<Epilogue> op) {
  extern __shared__ uint8_t dynamic[];
  __shared__ int tiles;
  const Ring<S> ring = {dynamic + (-shared_address(dynamic) & 1023)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::kStages; ++i) {
      barrier_init(ring.full(i * S::kStageBytes), 1);
      barrier_init(ring.empty(i * S::kStageBytes), S::kRowGroups * 4);  // by warp
    }
    barrier_init_done();
  }
  if (!op.listed_early) wait_for_previous_kernel();
  if (threadIdx.x == 0)
    tiles = op.segments.count(S::kTokens) * ((op.w.row_blocks + S::kRowGroups - 1) / S::kRowGroups);
  __syncthreads();

  const int warpgroup = uniform(threadIdx.x / 128);
  if (warpgroup == S::kRowGroups) {
    if constexpr (S::kMoveRegisters) give_registers<S::kLoaderRegisters>();
    const int loader = uniform(threadIdx.x / 32) - 4 * S::kRowGroups;
    if (threadIdx.x % 32 == 0) produce<S>(op, ring, loader, tiles);
  } else {
    if constexpr (S::kMoveRegisters) take_registers<S::kConsumerRegisters>();
    Consumer<S, Epilogue> consumer = {
        .op = op,
        .ring = ring,
        .out_stage = ring.base + S::kStages * S::kStageBytes,
        .row_group = warpgroup,
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
       .shared_bytes = S::kSharedBytes},
      stream, product);
}

// --- epilogues: what becomes of 64 rows x kTokens in the registers of a warpgroup -------------------
// total[4 i + (0, 1)] are row r = 16 warp + g, tokens 8 i + 2c + (0, 1); total[4 i + (2, 3)] row r + 8.

// Writes bf16 rows [token][0, kRows) from shared memory, 16 bytes a thread. Chunk j of token t lies at chunk
// j ^ (t % (kRows / 8)).
template <int kTokens, int kRows, class RowOf>
__device__ __forceinline__ void write_staged(const uint8_t* staged, int count, int rows_left,
                                             const RowOf& row_of) {
  constexpr int kChunks = kRows / 8;
  const int thread = threadIdx.x % 128, chunk = thread % kChunks;
#pragma unroll
  for (int token = thread / kChunks; token < kTokens; token += 128 / kChunks) {
    if (token >= count) break;
    const uint4 values = *reinterpret_cast<const uint4*>(staged + token * kRows * 2 +
                                                         (chunk ^ token % kChunks) * 16);
    __nv_bfloat16* to = row_of(token) + chunk * 8;
    if (chunk * 8 + 8 <= rows_left && reinterpret_cast<uintptr_t>(to) % 16 == 0) {
      *reinterpret_cast<uint4*>(to) = values;
    } else {
      const uint32_t words[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (chunk * 8 + i < rows_left)
          to[i] = __ushort_as_bfloat16(uint16_t(words[i / 2] >> 16 * (i % 2)));
    }
  }
}

// Scales of rows r and r + 8 of this thread, and biases; 0 of rows that only pad.
struct RowTerms {
  float scale[2], add[2];
  __device__ __forceinline__ RowTerms(const Tiles& w, const float* bias, int expert,
                                      int row_block) {
    const int thread = threadIdx.x % 128;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = row_block * kTile + thread / 32 * 16 + thread % 32 / 4 + 8 * i;
      const bool exists = row < w.rows;
      scale[i] = exists ? scale_of(w, expert, row) : 0;
      add[i] = exists && bias ? bias[int64_t(expert) * w.rows + row] : 0;
    }
  }
};

// 64 rows of all tokens to shared memory, rounded to bf16, transposed to [token][row].
template <int kSums>
__device__ __forceinline__ void stage_rows(const float (&total)[kSums], const RowTerms& t,
                                           uint8_t* staged, int barrier) {
  const int thread = threadIdx.x % 128, lane = thread % 32;
  named_barrier_sync(barrier, 128);  // the tile before has been written
#pragma unroll
  for (int i = 0; i < kSums / 8; ++i) {
    const float* sum = total + 8 * i;
    const int token = 16 * i + lane / 16 * 8 + lane % 8;
    const int chunk = thread / 32 * 2 + lane / 8 % 2;
    store_transposed(staged + token * 128 + (chunk ^ token % 8) * 16,
                     pack_bf16(sum[0] * t.scale[0] + t.add[0], sum[1] * t.scale[0] + t.add[0]),
                     pack_bf16(sum[2] * t.scale[1] + t.add[1], sum[3] * t.scale[1] + t.add[1]),
                     pack_bf16(sum[4] * t.scale[0] + t.add[0], sum[5] * t.scale[0] + t.add[0]),
                     pack_bf16(sum[6] * t.scale[1] + t.add[1], sum[7] * t.scale[1] + t.add[1]));
  }
  named_barrier_sync(barrier, 128);
}

}  // namespace rose::cuda
