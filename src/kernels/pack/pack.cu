// Packing on the GPU: a part of the matrix is copied as published, and a kernel writes its tiles.
#include "kernels/pack/pack.h"

#include <algorithm>

#include "device/launch.cuh"
#include "device/warp.cuh"
#include "kernels/cuda.h"
#include "kernels/pack/tiles.cuh"
#include "tensor/fp8.h"

namespace rose::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kStagingBytes = int64_t(64) << 20;

// Rows [row, row + rows) of one expert, as the checkpoint has them.
struct Source {
  const uint8_t* values;  // of row `row` on; of a transposed matrix: its row-th column on
  const uint8_t* scales;
  RawWeight::Kind kind;
  int64_t row_stride;  // of a transposed matrix: rows of the whole
  int columns;

  // As E2M1 code and E8M0 byte.
  __device__ int code(int row, int column) const {
    const uint8_t byte = values[int64_t(row) * (columns / 2) + column / 2];
    return column % 2 ? byte >> 4 : byte & 15;
  }
  __device__ int exponent(int row, int block) const {
    return scales[int64_t(row) * (columns / kMxBlock) + block];
  }
  __device__ float value(int row, int column) const {
    const __nv_bfloat16* wide = reinterpret_cast<const __nv_bfloat16*>(values);
    switch (kind) {
      case RawWeight::Kind::bf16: return __bfloat162float(wide[int64_t(row) * columns + column]);
      case RawWeight::Kind::bf16_transposed:
        return __bfloat162float(wide[int64_t(column) * row_stride + row]);
      case RawWeight::Kind::mxfp4: {
        const int e = exponent(row, column / kMxBlock);
        return e == 255 ? NAN : ldexpf(e2m1_value(code(row, column)), e - 127);
      }
    }
    return 0;
  }
};

struct Params {
  uint8_t* tiles;     // of the first row block
  float* row_scales;  // likewise; of fp8_block: of its blocks, [row blocks, stages]
  Source from;
  Format format;
  int rows;  // in this part
  int units;
  unsigned long long* inexact;  // MXFP4 blocks that lose bits are counted here; or null
};

// Counts a block of MXFP4 once: `lanes` of the warp have a part of it, `lost` says whether mine lost bits.
__device__ void count_inexact(const Params& p, uint32_t lanes, bool lost) {
  const uint32_t mine = __ballot_sync(~0u, lost) & lanes;
  if (p.inexact && mine && __ffs(int(lanes)) - 1 == int(threadIdx.x % kWarp))
    atomicAdd(p.inexact, 1ull);
}

// Codes whose block lies under the window of exponents: the nearest that the lowest exponent allows.
__device__ int requantised(int code, int below) {
  const float wanted = ldexpf(fabsf(e2m1_value(code)), -below);
  int best = 0;
  for (int c = 1; c < 8; ++c)
    if (fabsf(e2m1_value(c) - wanted) < fabsf(e2m1_value(best) - wanted)) best = c;
  return best | (code & 8);
}

__device__ void pack_mxfp4_tile(const Params& p, uint8_t* tile, int first_row, int unit,
                                const int* largest, int lowest) {
  for (int i = threadIdx.x; i < kTile * kTile / 8; i += kThreads) {
    const int c = i % 4, word = i / 4 % 4, g = i / 16 % 8, warp = i / 128;
    const int in_tile = 16 * warp + g + word % 2 * 8, row = first_row + in_tile;
    const int column = unit * kTile + word / 2 * 32;
    uint32_t bits = 0;
    int exponent = lowest;
    bool lost = false;
    if (row < p.rows && column < p.from.columns) {
      exponent = p.from.exponent(row, column / kMxBlock) - largest[in_tile] + kLargestExponent;
      const int below = max(0, lowest - exponent);
      exponent = min(max(exponent, lowest), kLargestExponent);  // above: a block of zeros
      for (int j = 0; j < 4; ++j) {
        uint32_t x = p.from.code(row, column + 4 * c + j);
        uint32_t y = p.from.code(row, column + 16 + 4 * c + j);
        if (below > 0) {
          const float x_before = e2m1_value(x), y_before = e2m1_value(y);
          x = requantised(x, below), y = requantised(y, below);
          lost = lost || ldexpf(e2m1_value(x), below) != x_before ||
                 ldexpf(e2m1_value(y), below) != y_before;
        }
        bits |= (x & 7) << (4 * j) | (y & 7) << (16 + 4 * j);
        bits |= (x >> 3) << (8 * j + 7) | (y >> 3) << (8 * j + 3);
      }
    }
    // The other words of the block are those of lanes 1, 2 and 3 of each four.
    count_inexact(p, 0xfu << (threadIdx.x % kWarp / 4 * 4), lost);
    reinterpret_cast<uint32_t*>(tile)[4 * (32 * warp + 4 * g + c) + word] = bits;
    if (c == 0) tile[kCodeBytes + 4 * (8 * warp + g) + word] = uint8_t(exponent);
  }
}

// A row block of fp8_block, block of columns by block: the largest of both row blocks that share a scale, then
// the two tiles.
__device__ void pack_fp8_blocks(const Params& p) {
  __shared__ int largest;  // bits of a float
  const bool counts = p.from.kind == RawWeight::Kind::mxfp4;
  const int stages = (p.units + 1) / 2;
  const int first_row = blockIdx.x * kTile, block_row = first_row / kFp8Block * kFp8Block;
  uint8_t* tile = p.tiles + int64_t(blockIdx.x) * p.units * tile_bytes(p.format);
  for (int stage = 0; stage < stages; ++stage) {
    const int first_column = stage * kFp8Block;
    if (threadIdx.x == 0) largest = 0;
    __syncthreads();
    int most = 0;
    for (int i = threadIdx.x; i < kFp8Block * kFp8Block; i += kThreads) {
      const bool down = p.from.kind == RawWeight::Kind::bf16_transposed;
      const int row = block_row + (down ? i % kFp8Block : i / kFp8Block);
      const int column = first_column + (down ? i / kFp8Block : i % kFp8Block);
      if (row < p.rows && column < p.from.columns) {
        const float value = fabsf(p.from.value(row, column));
        if (!isnan(value)) most = max(most, __float_as_int(value));
      }
    }
    most = __reduce_max_sync(~0u, most);
    if (threadIdx.x % kWarp == 0) atomicMax(&largest, most);
    __syncthreads();
    const float scale = fp8_block_scale(__int_as_float(largest));
    if (threadIdx.x == 0) p.row_scales[blockIdx.x * stages + stage] = scale;

    const int units = min(2, p.units - 2 * stage);
    for (int i = threadIdx.x; i < units * kTile * kTile; i += kThreads) {
      // A warp has 32 columns of a row: a block of MXFP4.
      const int unit = i / (kTile * kTile), r = i / kTile % kTile, c = i % kTile;
      const int row = first_row + r, column = first_column + unit * kTile + c;
      const bool exists = row < p.rows && column < p.from.columns;
      const float value = exists ? p.from.value(row, column) : 0;
      const __nv_fp8_e4m3 code(value / scale);
      if (counts) count_inexact(p, ~0u, exists && float(code) * scale != value);
      tile[unit * kTile * kTile + fp8_at(r, c)] = code.__x;
    }
    tile += units * kTile * kTile;
    __syncthreads();  // all have read the largest
  }
}

// One block a row block: what its rows share first, then the tiles one by one.
//   grid   row blocks
__global__ void __launch_bounds__(kThreads) pack_kernel(const __grid_constant__ Params p) {
  wait_for_previous_kernel();
  if (p.format == Format::fp8_block) return pack_fp8_blocks(p);
  __shared__ int largest[kTile];  // bits of a float, or an exponent; of each row
  const int first_row = blockIdx.x * kTile;
  const bool mxfp4 = p.format == Format::mxfp4 || p.format == Format::mxfp4_fp8;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;

  for (int r = warp; r < kTile; r += kThreads / kWarp) {
    const int row = first_row + r;
    int most = 0;
    if (row < p.rows && mxfp4) {
      for (int block = lane; block < p.from.columns / kMxBlock; block += kWarp) {
        bool zero = true;  // such a block is free to have any exponent
        for (int i = 0; i < kMxBlock; ++i)
          zero = zero && (p.from.code(row, block * kMxBlock + i) & 7) == 0;
        if (!zero) most = max(most, p.from.exponent(row, block));
      }
    } else if (row < p.rows && p.format == Format::fp8) {
      for (int column = lane; column < p.from.columns; column += kWarp)
        most = max(most, __float_as_int(fabsf(p.from.value(row, column))));
    }
    most = __reduce_max_sync(~0u, most);
    if (lane == 0) {
      largest[r] = most;
      if (mxfp4)
        p.row_scales[first_row + r] =
            most == 255 ? NAN : ldexpf(1, most - 127 - kLargestExponent + kExponentBias);
      else if (p.format == Format::fp8)
        p.row_scales[first_row + r] = most == 0 ? 1 : __int_as_float(most) / 448;
    }
  }
  __syncthreads();

  uint8_t* tile = p.tiles + int64_t(blockIdx.x) * p.units * tile_bytes(p.format);
  for (int unit = 0; unit < p.units; ++unit, tile += tile_bytes(p.format)) {
    if (mxfp4) {
      const int lowest = p.format == Format::mxfp4_fp8 ? 8 : 0;
      pack_mxfp4_tile(p, tile, first_row, unit, largest, lowest);
      continue;
    }
    for (int i = threadIdx.x; i < kTile * kTile; i += kThreads) {
      // Neighbouring threads read neighbours: along a row, or down a column of a transposed matrix.
      const bool down = p.from.kind == RawWeight::Kind::bf16_transposed;
      const int r = down ? i % kTile : i / kTile, c = down ? i / kTile : i % kTile;
      const int row = first_row + r, column = unit * kTile + c;
      const bool exists = row < p.rows && column < p.from.columns;
      const float value = exists ? p.from.value(row, column) : 0;
      if (p.format == Format::bf16)
        *reinterpret_cast<__nv_bfloat16*>(tile + bf16_at(r, c)) = __float2bfloat16_rn(value);
      else
        tile[fp8_at(r, c)] =
            __nv_fp8_e4m3(value / (largest[r] ? __int_as_float(largest[r]) / 448 : 1)).__x;
    }
  }
}

// Memory where parts of a matrix wait to be packed. Kept for the next call, never given back: a
// model is loaded once, and the driver may be gone when static objects end.
uint8_t* staging(Stream& stream, int64_t bytes) {
  static void* memory = nullptr;
  static int64_t size = 0;
  if (size < bytes) {
    if (memory) {
      stream.device->synchronize(stream);
      stream.device->release(memory, size);
    }
    size = std::max(bytes, kStagingBytes + kStagingBytes / 8);
    memory = stream.device->allocate(size);
    ROSE_CHECK(memory, "pack: no memory for %ld bytes", long(size));
  }
  return static_cast<uint8_t*>(memory);
}

}  // namespace

bool keeps(Format format) { return tile_bytes(format) > 0; }

int64_t weight_bytes(Format format, int experts, int rows, int columns) {
  ROSE_CHECK(keeps(format), "weight_bytes: %s is no format of this backend", name_of(format));
  return Tiles(format, experts, rows, columns).bytes();
}

void pack(Stream& stream, const Pack& op) {
  const RawWeight& from = op.from;
  ROSE_CHECK(packable(from.kind, op.to.format), "pack: a bf16 matrix into %s",
             name_of(op.to.format));
  ROSE_CHECK(op.to.rows == from.rows && op.to.columns == from.columns && op.first_expert >= 0 &&
                 op.first_expert + from.experts <= op.to.experts,
             "pack: [%d, %d, %d] into [%d, %d, %d] from expert %d on", from.experts, from.rows,
             from.columns, op.to.experts, op.to.rows, op.to.columns, op.first_expert);
  const Tiles to(op.to);
  const bool mxfp4 = from.kind == RawWeight::Kind::mxfp4;
  const bool transposed = from.kind == RawWeight::Kind::bf16_transposed;
  const int64_t row_bytes = mxfp4 ? from.columns / 2 : int64_t(from.columns) * 2;
  const int64_t row_scale_bytes = mxfp4 ? from.columns / kMxBlock : 0;

  // In whole blocks of fp8_block, which are two row blocks.
  int64_t part = kStagingBytes / (row_bytes + row_scale_bytes) / kFp8Block * kFp8Block;
  part = std::min<int64_t>(std::max<int64_t>(part, kFp8Block), from.rows);
  if (transposed) part = from.rows;  // its rows are not together
  const int64_t scales_at = (part * row_bytes + 255) / 256 * 256;
  const Turn turn;  // the staging memory is shared
  uint8_t* const staged =
      from.on_device ? nullptr : staging(stream, scales_at + part * row_scale_bytes);

  for (int expert = 0; expert < from.experts; ++expert)
    for (int64_t row = 0; row < from.rows; row += part) {
      const int64_t rows = std::min<int64_t>(part, from.rows - row);
      const int64_t first = int64_t(expert) * from.rows + row;
      const uint8_t* values = from.values + first * row_bytes;
      const uint8_t* scales = mxfp4 ? from.scales + first * row_scale_bytes : nullptr;
      if (!from.on_device) {
        stream.device->upload(stream, staged, values, rows * row_bytes);
        if (mxfp4)
          stream.device->upload(stream, staged + scales_at, scales, rows * row_scale_bytes);
        values = staged, scales = staged + scales_at;
      }
      const int64_t block = int64_t(op.first_expert + expert) * to.row_blocks + row / kTile;
      const float* row_scales = to.block_scales ? to.block_scales + block * to.stages()
                                : to.row_scales ? to.row_scales + block * kTile
                                                : nullptr;
      launch<pack_kernel>(
          "pack", {.blocks = dim3(unsigned((rows + kTile - 1) / kTile)), .threads = kThreads},
          stream,
          Params{
              .tiles = const_cast<uint8_t*>(to.data) + block * to.units * tile_bytes(to.format),
              .row_scales = const_cast<float*>(row_scales),
              .from = {.values = values,
                       .scales = scales,
                       .kind = from.kind,
                       .row_stride = from.rows,
                       .columns = from.columns},
              .format = to.format,
              .rows = int(rows),
              .units = to.units,
              .inexact = reinterpret_cast<unsigned long long*>(op.inexact),
          });
    }
}

}  // namespace rose::cuda
