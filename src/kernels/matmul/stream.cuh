// Products with few tokens, where the time is that of reading the weights. Every warp streams its own part
// of them through a ring of its own in shared memory, by asynchronous copies that each lane makes for itself:
// no barrier, no wait but for one's own bytes, and the ring does not drain between tiles. Weights become
// f16 in registers (bf16 stay bf16): every E4M3 and every MXFP4 weight is exactly an f16, so nothing is
// lost but what f16 cannot hold of an activation.
//
//   a block  kSlabs x kSplit warps; a slab is 16 rows, the kSplit warps of a slab take its units
//            (64 columns) in turn and add up at the end
//   an item  one segment (up to kTokens tokens of one matrix) x one group of slabs
//
// The tokens of a segment lie in shared memory, put there by bulk copies. Weights of a dense matrix are
// fetched before the kernel before has ended.
#pragma once
#include "device/launch.cuh"
#include "device/warp.cuh"
#include "kernels/matmul/segments.cuh"

namespace rose::cuda {

// How 16 rows x 64 columns of a format are fetched and multiplied. A lane copies what it will read: no other
// lane's bytes, so it waits only for itself.
struct StreamBf16 {
  static constexpr bool kWidens = false;  // tokens become f16 when they have arrived
  static constexpr int kTileBytes = tile_bytes(Format::bf16);
  static constexpr int kSlotBytes = 2048;
  static constexpr int kAhead = 3;    // slots of a warp's ring
  static constexpr int kRowPad = 64;  // bytes between tokens, so that their parts meet other banks
  // (row g, chunk c), (g + 8, c), (g, c + 4), (g + 8, c + 4)
  static __device__ __forceinline__ void fetch(uint8_t* slot, const uint8_t* tile, int slab,
                                               int lane) {
    const int g = lane / 4, c = lane % 4;
    const uint8_t* row = tile + slab * 2048 + g * 128;
    slot += lane * 16;
    copy_async(slot, row + (c ^ g) * 16);
    copy_async(slot + 512, row + 1024 + (c ^ g) * 16);
    copy_async(slot + 1024, row + ((c + 4) ^ g) * 16);
    copy_async(slot + 1536, row + 1024 + ((c + 4) ^ g) * 16);
  }
  struct Expanded {
    uint4 of[4];
  };
  static __device__ __forceinline__ Expanded expand(const uint8_t* slot, int lane) {
    Expanded e;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      e.of[i] = *reinterpret_cast<const uint4*>(slot + lane * 16 + i * 512);
    return e;
  }
  // A token's unit: 64 bf16. The lane's two parts of 16 bytes.
  static __device__ __forceinline__ void multiply(float (&sum)[4], const Expanded& w,
                                                  const uint8_t* unit, int c) {
    const uint4 x0 = *reinterpret_cast<const uint4*>(unit + 16 * c);
    const uint4 x1 = *reinterpret_cast<const uint4*>(unit + 16 * c + 64);
    mma_bf16(sum, w.of[0].x, w.of[1].x, w.of[0].y, w.of[1].y, x0.x, x0.y);
    mma_bf16(sum, w.of[0].z, w.of[1].z, w.of[0].w, w.of[1].w, x0.z, x0.w);
    mma_bf16(sum, w.of[2].x, w.of[3].x, w.of[2].y, w.of[3].y, x1.x, x1.y);
    mma_bf16(sum, w.of[2].z, w.of[3].z, w.of[2].w, w.of[3].w, x1.z, x1.w);
  }
};

// f16 registers of the four products of a unit: product k takes low[k] and high[k] of both rows.
struct ExpandedF16 {
  uint32_t low[2][4], high[2][4];  // [row g, row g + 8][product]
};
__device__ __forceinline__ void multiply_f16(float (&sum)[4], const ExpandedF16& w, const uint4& x0,
                                             const uint4& x1) {
  mma_f16(sum, w.low[0][0], w.low[1][0], w.high[0][0], w.high[1][0], x0.x, x0.y);
  mma_f16(sum, w.low[0][1], w.low[1][1], w.high[0][1], w.high[1][1], x0.z, x0.w);
  mma_f16(sum, w.low[0][2], w.low[1][2], w.high[0][2], w.high[1][2], x1.x, x1.y);
  mma_f16(sum, w.low[0][3], w.low[1][3], w.high[0][3], w.high[1][3], x1.z, x1.w);
}

struct StreamFp8 {
  static constexpr bool kWidens = true;
  static constexpr int kTileBytes = tile_bytes(Format::fp8);
  static constexpr int kSlotBytes = 1024;
  static constexpr int kAhead = 4;
  static constexpr int kRowPad = 16;
  // Columns 16c .. 16c + 15 of rows g and g + 8.
  static __device__ __forceinline__ void fetch(uint8_t* slot, const uint8_t* tile, int slab,
                                               int lane) {
    const int g = lane / 4, c = lane % 4;
    const uint8_t* row = tile + slab * 1024 + g * 64 + (c ^ (g / 2 % 4)) * 16;
    copy_async(slot + lane * 16, row);
    copy_async(slot + 512 + lane * 16, row + 512);
  }
  using Expanded = ExpandedF16;
  static __device__ __forceinline__ Expanded expand(const uint8_t* slot, int lane) {
    return expand(slot + lane * 16);
  }
  // of a lane's bytes
  static __device__ __forceinline__ Expanded expand(const uint8_t* bytes) {
    Expanded e;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint4 w = *reinterpret_cast<const uint4*>(bytes + r * 512);
      const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int k = 0; k < 4; ++k)
        e.low[r][k] = e4m3_to_f16(words[k]), e.high[r][k] = e4m3_to_f16(words[k] >> 16);
    }
    return e;
  }
  // A token's unit: 64 f16.
  static __device__ __forceinline__ void multiply(float (&sum)[4], const Expanded& w,
                                                  const uint8_t* unit, int c) {
    multiply_f16(sum, w, *reinterpret_cast<const uint4*>(unit + 32 * c),
                 *reinterpret_cast<const uint4*>(unit + 32 * c + 16));
  }
};

// Where column `column` of a token stands when it is to meet MXFP4 tiles here: a lane's 16 columns of a
// unit lie together, in the order of its registers.
__host__ __device__ constexpr int stream_mxfp4_place(int column) {
  const int half = column / 32 % 2, y = column / 16 % 2, c = column % 16 / 4, j = column % 4;
  return column / 64 * 64 + 16 * c + 8 * half + 4 * y + j;
}

struct StreamMxfp4 {
  static constexpr bool kWidens = false;
  static constexpr int kTileBytes = tile_bytes(Format::mxfp4);
  static constexpr int kSlotBytes = 640;
  static constexpr int kAhead = 10;
  static constexpr int kRowPad = 16;
  static __device__ __forceinline__ void fetch(uint8_t* slot, const uint8_t* tile, int slab,
                                               int lane) {
    copy_async(slot + lane * 16, tile + slab * 512 + lane * 16);
    copy_async_word(slot + 512 + lane * 4, tile + kCodeBytes + slab * 32 + lane / 4 * 4);
  }
  using Expanded = ExpandedF16;
  // Eight codes of one row to four f16 pairs. The upper byte of an f16 is an E5M2 number, and that has
  // room for a code and its exponent: the bytes of the table are the patterns of 0, .5, 1, 1.5 |
  // 2, 3, 4, 6 at b = 0 (four a binade); adding 4 b to each but the zero moves them up by b binades. A
  // byte permute looks up four codes, a second one spreads two of them over a pair.
  static __device__ __forceinline__ void expand_row(uint32_t codes, uint32_t b, uint32_t* low,
                                                    uint32_t* high) {
    const uint32_t table_low = b * 0x04040400u + 0x0a080400u;
    const uint32_t table_high = b * 0x04040404u + 0x12100e0cu;
    const uint32_t magnitudes = codes & 0x77777777u;
    const uint32_t x = and_or(codes, 0x80808080u, permute(table_low, table_high, magnitudes));
    const uint32_t y =
        and_or(codes << 4, 0x80808080u, permute(table_low, table_high, magnitudes >> 16));
    low[0] = permute(x, 0, 0x1404), high[0] = permute(x, 0, 0x3424);
    low[1] = permute(y, 0, 0x1404), high[1] = permute(y, 0, 0x3424);
  }
  static __device__ __forceinline__ Expanded expand(const uint8_t* slot, int lane) {
    const uint4 codes = *reinterpret_cast<const uint4*>(slot + lane * 16);
    return expand(codes, *reinterpret_cast<const uint32_t*>(slot + 512 + lane * 4));
  }
  static __device__ __forceinline__ Expanded expand(const uint4& codes, uint32_t exponents) {
    Expanded e;
    expand_row(codes.x, permute(exponents, 0, 0x4440), e.low[0], e.high[0]);
    expand_row(codes.y, permute(exponents, 0, 0x4441), e.low[1], e.high[1]);
    expand_row(codes.z, permute(exponents, 0, 0x4442), e.low[0] + 2, e.high[0] + 2);
    expand_row(codes.w, permute(exponents, 0, 0x4443), e.low[1] + 2, e.high[1] + 2);
    return e;
  }
  // A token's unit: 64 f16 in the order of stream_mxfp4_place.
  static __device__ __forceinline__ void multiply(float (&sum)[4], const Expanded& w,
                                                  const uint8_t* unit, int c) {
    multiply_f16(sum, w, *reinterpret_cast<const uint4*>(unit + 32 * c),
                 *reinterpret_cast<const uint4*>(unit + 32 * c + 16));
  }
};

template <class Weights_, int tokens_, int slabs_, int split_>
struct StreamShape {
  using Weights = Weights_;
  static constexpr int kTokens = tokens_;
  static constexpr int kSlabs = slabs_;
  static constexpr int kSplit = split_;
  static constexpr int kWarps = kSlabs * kSplit;
  static constexpr int kThreads = kWarp * kWarps;
  // On a multiprocessor, if they fit. Of 16 rows each, the 320 of a query, key and value product: all at once.
  static constexpr int kBlocks = kWarps > 8 ? 1 : kSlabs == 1 ? 3 : 2;
  static constexpr int kAhead = Weights::kAhead;
  // Shared memory: a barrier, the warps' rings, the sums of two items, the tokens.
  static constexpr int kRingBytes = kAhead * Weights::kSlotBytes;
  static constexpr int kPartsAt = 128 + kWarps * kRingBytes;
  static constexpr int kPartBytes = (kSplit - 1) * kSlabs * 16 * kTokens * 4;  // of one item
  static constexpr int kTokensAt = kPartsAt + 2 * kPartBytes;
  static constexpr int token_bytes(int columns) { return columns * 2 + Weights::kRowPad; }
  static constexpr int shared_bytes(int columns, int tokens) {
    return kTokensAt + tokens * token_bytes(columns);
  }
};

template <class Epilogue>
struct StreamProduct {
  Tiles w;           // columns % 64 == 0
  const uint8_t* x;  // rows of w.columns values of 2 bytes
  SegmentList segments;
  Epilogue epilogue;
};

// Scales and biases of rows r and r + 8 of a lane; 0 of rows that only pad.
struct StreamTerms {
  float scale[2], bias[2];
  __device__ __forceinline__ StreamTerms(const Tiles& w, const float* biases, int expert, int row) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool exists = row + 8 * r < w.rows;
      scale[r] = exists ? scale_of(w, expert, row + 8 * r) : 0;
      bias[r] = exists && biases ? biases[int64_t(expert) * w.rows + row + 8 * r] : 0;
    }
  }
};

// What an epilogue is told of the 16 rows x kTokens in a warp's registers: sum[i][0, 1] are row
// g = lane / 4 of tokens 8 i + 2 (lane % 4) + (0, 1), sum[i][2, 3] are row g + 8.
struct StreamPlace {
  Segment segment;
  int row;  // the first of the 16
  int lane;
};

template <class S, class Epilogue>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    stream_kernel(const __grid_constant__ StreamProduct<Epilogue> p) {
  using W = typename S::Weights;
  constexpr int kTiles = S::kTokens / 8;
  extern __shared__ __align__(128) uint8_t shared[];
  constexpr int kAhead = S::kAhead;
  const bool dense = !p.segments.list;
  // What follows a dense product reads only what no kernel of a step writes before it waits.
  if (dense) let_next_kernel_start();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int slab = warp % S::kSlabs, split = warp / S::kSlabs;
  const int groups = p.w.row_blocks * 4 / S::kSlabs;
  const int mine = (p.w.units - split + S::kSplit - 1) / S::kSplit;  // units of this warp
  const int token_bytes = S::token_bytes(p.w.columns);
  uint64_t* const arrived = reinterpret_cast<uint64_t*>(shared);
  uint8_t* const ring = shared + 128 + warp * S::kRingBytes;
  uint8_t* const x = shared + S::kTokensAt;
  if (threadIdx.x == 0) {
    barrier_init(arrived, 1);
    barrier_init_done();
  }

  // The tile that is fetched next, and the slot that takes it: kAhead units in front of the products.
  int fetch_item = blockIdx.x, fetch_left = 0, fetch_slot = 0, items = 0;
  int fetch_slab = 0;  // of its tiles
  const uint8_t* fetch_from = nullptr;
  const auto slab_of = [&](int item) { return item % groups * S::kSlabs + slab; };
  const auto aim = [&](int expert) {
    const int row_slab = slab_of(fetch_item);
    const int64_t block = int64_t(expert) * p.w.row_blocks + row_slab / 4;
    fetch_slab = row_slab % 4;
    fetch_from = p.w.data + (block * p.w.units + split) * W::kTileBytes;
    fetch_left = mine;
  };
  const auto fetch = [&] {
    if (fetch_left > 0) {
      W::fetch(ring + fetch_slot * W::kSlotBytes, fetch_from, fetch_slab, lane);
      fetch_from += S::kSplit * W::kTileBytes;
      if (--fetch_left == 0) {
        fetch_item += gridDim.x;
        if (fetch_item < items) aim(p.segments.at(fetch_item / groups, S::kTokens).expert);
      }
    }
    copy_async_commit();  // also of nothing: the waits below count groups
    fetch_slot = fetch_slot + 1 == kAhead ? 0 : fetch_slot + 1;
  };

  if (dense) {
    items = p.segments.count(S::kTokens) * groups;
    aim(0);
    for (int i = 0; i < kAhead; ++i) fetch();
  }
  wait_for_previous_kernel();
  if (!dense) {
    let_next_kernel_start();
    items = p.segments.count(S::kTokens) * groups;
    if (fetch_item < items) aim(p.segments.at(fetch_item / groups, S::kTokens).expert);
    for (int i = 0; i < kAhead; ++i) fetch();
  }
  __syncthreads();  // the barrier is ready

  int staged = -1, slot = 0;  // the segment whose tokens are in shared memory
  uint32_t parity = 0;
  for (int item = blockIdx.x, turn = 0; item < items; item += gridDim.x, ++turn) {
    const Segment segment = p.segments.at(item / groups, S::kTokens);
    const StreamPlace place = {segment, slab_of(item) * 16, lane};
    // What the results are scaled by and added to is on its way meanwhile.
    const auto terms = p.epilogue.template terms<kTiles>(p.w, place);
    if (item / groups != staged) {
      staged = item / groups;
      if constexpr (W::kWidens) {  // once, instead of each warp for itself
        // Several loads before the first use: all come from the same distance.
        constexpr int kAtOnce = 4;
        const int chunks = p.w.columns / 8;
        int token = 0, chunk = threadIdx.x;
        while (token < segment.count) {
          uint4 eight[kAtOnce];
          int to[kAtOnce];
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i, chunk += S::kThreads) {
            for (; chunk >= chunks; chunk -= chunks) ++token;
            to[i] = token < segment.count ? token * token_bytes + chunk * 16 : -1;
            if (to[i] >= 0)
              eight[i] = *reinterpret_cast<const uint4*>(
                  p.x + (int64_t(p.segments.row(segment, token)) * chunks + chunk) * 16);
          }
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i)
            if (to[i] >= 0)
              *reinterpret_cast<uint4*>(x + to[i]) =
                  make_uint4(bf16_to_f16(eight[i].x), bf16_to_f16(eight[i].y),
                             bf16_to_f16(eight[i].z), bf16_to_f16(eight[i].w));
        }
        __syncthreads();
      } else {
        if (warp == 0) {
          const int bytes = p.w.columns * 2;
          if (lane == 0) barrier_expect(arrived, segment.count * bytes);
          __syncwarp();
          if (lane < segment.count)
            bulk_load(x + lane * token_bytes, p.x + int64_t(p.segments.row(segment, lane)) * bytes,
                      bytes, arrived);
        }
        barrier_wait(arrived, parity);
        parity ^= 1;
      }
    }

    float sum[kTiles][4] = {};
    const uint8_t* unit[kTiles];  // of the lane's token; one that is not there is another one twice
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      unit[tile] = x + min(tile * 8 + lane / 4, segment.count - 1) * token_bytes + split * 128;
    for (int i = 0; i < mine; ++i) {
      copy_async_wait<kAhead - 1>();
      const typename W::Expanded w = W::expand(ring + slot * W::kSlotBytes, lane);
      slot = slot + 1 == kAhead ? 0 : slot + 1;
      fetch();
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        W::multiply(sum[tile], w, unit[tile], lane % 4);
        unit[tile] += S::kSplit * 128;
      }
    }

    if constexpr (S::kSplit > 1) {
      // Two places in turn: the last item's sums may still be read.
      float* parts = reinterpret_cast<float*>(shared + S::kPartsAt + turn % 2 * S::kPartBytes);
      constexpr int kSums = kTiles * 4;
      if (split > 0)
#pragma unroll
        for (int i = 0; i < kSums; ++i)
          parts[(((split - 1) * S::kSlabs + slab) * kSums + i) * kWarp + lane] = sum[i / 4][i % 4];
      __syncthreads();
      if (split == 0)
#pragma unroll
        for (int other = 0; other < S::kSplit - 1; ++other)
#pragma unroll
          for (int i = 0; i < kSums; ++i)
            sum[i / 4][i % 4] += parts[((other * S::kSlabs + slab) * kSums + i) * kWarp + lane];
    } else {
      __syncthreads();  // all have read the tokens
    }
    if (split == 0) p.epilogue(sum, terms, p.w, place);
  }
}

// Whether the tokens of a block fit beside the rings, and twice on a multiprocessor if that is wanted.
template <class S>
bool stream_fits(int columns, int tokens) {
  return columns % kTile == 0 && S::shared_bytes(columns, std::min(tokens, S::kTokens)) <=
                                     (S::kBlocks > 1 ? 112 : 226) << 10;
}

template <class S, class Epilogue>
void stream_product(const char* name, Stream& stream, int most_segments, int most_tokens,
                    const StreamProduct<Epilogue>& product) {
  const int items = most_segments * (product.w.row_blocks * 4 / S::kSlabs);
  const int shared = S::shared_bytes(product.w.columns, std::min(most_tokens, S::kTokens));
  const int resident = resident_blocks<stream_kernel<S, Epilogue>>(name, S::kThreads, shared);
  launch<stream_kernel<S, Epilogue>>(name,
                                     {.blocks = dim3(unsigned(std::min(items, resident))),
                                      .threads = S::kThreads,
                                      .shared_bytes = shared},
                                     stream, product);
}

}  // namespace rose::cuda
