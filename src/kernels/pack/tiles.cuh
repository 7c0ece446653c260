// How a matrix lies in the GPU's memory: a grid of 64 x 64 tiles, the tiles of a block of 64 rows one
// after the other, so that a row block is one stream of bytes. Rows and columns past the last are
// zeros. After the tiles come f32 scales, one a row.
//
//   | tiles [experts, row_blocks, units] | row scales [experts, row_blocks * 64]  f32, not of bf16 |
//
// Both ways to multiply read the same tile. For a thread t of 128, with w = t / 32 (16 rows each),
// g = t % 32 / 4, c = t % 4:
//
//   bf16   8,192 bytes: rows of 128 bytes, 16-byte chunk j of row r at chunk j ^ (r % 8)
//   fp8    4,096 bytes: E4M3, rows of 64 bytes, chunk j of row r at chunk j ^ (r / 2 % 4);
//          weight = code * row scale
//   fp8_block  the same tiles; in place of the row scales, scales [experts, row_blocks, units / 2 rounded
//          up]  f32, one for a row block and 128 columns: two row blocks in turn have the same
//   mxfp4  2,176 bytes: codes in the order in which the threads of a tensor core product want them,
//          then exponents:
//            byte 16 t + 4 i + (0..3)   word i = (k half 0, row r), (0, r + 8), (1, r), (1, r + 8),
//                                       r = 16 w + g; a half is 32 columns, one block of MXFP4
//              a word holds 8 codes:  x_j = column 4c + j,  y_j = column 16 + 4c + j  (j = 0..3)
//                magnitude of x_j  bits 4j .. 4j+2      magnitude of y_j  bits 16+4j .. 16+4j+2
//                sign      of x_j  bit 8j + 7           sign      of y_j  bit 8j + 3
//            byte 2048 + 4 (8 w + g) + i   exponent b of word i
//          weight = E2M1(code) * 2^(b - 13) * row scale. The row's largest block has b = 19.
//          As f16 that is exact for b in 0..19, as E4M3 for b in 8..19.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "device/ptx.cuh"
#include "kernels/weight.h"
#include "tensor/mxfp4.h"

namespace rose::cuda {

constexpr int kTile = 64;  // rows and columns; 64 columns are a "unit"
constexpr int kCodeBytes = kTile * kTile / 2;
constexpr int kLargestExponent = 19;
constexpr int kExponentBias = 13;

constexpr int tile_bytes(Format format) {
  switch (format) {
    case Format::bf16: return kTile * kTile * 2;
    case Format::fp8:
    case Format::fp8_block: return kTile * kTile;
    case Format::mxfp4:
    case Format::mxfp4_fp8: return kCodeBytes + kTile * 2;
    case Format::q8:
    case Format::mxfp4_q8: return 0;  // not of this backend
  }
  return 0;
}

// A packed matrix as kernels see it.
struct Tiles {
  const uint8_t* data = nullptr;
  const float* row_scales = nullptr;    // none of bf16 and fp8_block
  const float* block_scales = nullptr;  // of fp8_block
  Format format = Format::bf16;
  int experts = 1, rows = 0, columns = 0;
  int row_blocks = 0, units = 0;

  Tiles() = default;
  explicit Tiles(const Weight& weight)
      : Tiles(weight.format, weight.experts, weight.rows, weight.columns) {
    data = static_cast<const uint8_t*>(weight.data);
    const float* scales = reinterpret_cast<const float*>(data + scales_at());
    if (format == Format::fp8_block)
      block_scales = scales;
    else if (format != Format::bf16)
      row_scales = scales;
  }
  Tiles(Format format, int experts, int rows, int columns)
      : format(format),
        experts(experts),
        rows(rows),
        columns(columns),
        row_blocks((rows + kTile - 1) / kTile),
        units((columns + kTile - 1) / kTile) {}

  int64_t scales_at() const {
    return (int64_t(experts) * row_blocks * units * tile_bytes(format) + 255) / 256 * 256;
  }
  __host__ __device__ int stages() const { return (units + 1) / 2; }
  int64_t bytes() const {
    const int scales = format == Format::bf16 ? 0 : format == Format::fp8_block ? stages() : kTile;
    return scales_at() + int64_t(experts) * row_blocks * scales * 4;
  }
};

__device__ inline float e2m1_value(int code) {
  constexpr uint64_t kTwice = 0x0c08060403020100ull;  // twice the magnitude, a byte a code
  const float magnitude = 0.5f * float(kTwice >> (code & 7) * 8 & 0xff);
  return code & 8 ? -magnitude : magnitude;
}

__device__ inline int bf16_at(int row, int column) {  // byte in the tile
  return row * 128 + ((column / 8) ^ (row % 8)) * 16 + column % 8 * 2;
}
__device__ inline int fp8_at(int row, int column) {
  return row * 64 + ((column / 16) ^ (row / 2 % 4)) * 16 + column % 16;
}
// The word of a code, its exponent's byte, and the places of its bits.
struct Mxfp4At {
  int word, exponent, magnitude, sign;
  __device__ Mxfp4At(int row, int column) {
    const int warp = row / 16, g = row % 8, half = column / 32, y = column / 16 % 2;
    const int c = column % 16 / 4, j = column % 4, i = 2 * half + row / 8 % 2;
    word = 4 * (32 * warp + 4 * g + c) + i;
    exponent = kCodeBytes + 4 * (8 * warp + g) + i;
    magnitude = 16 * y + 4 * j;
    sign = 8 * j + (y ? 3 : 7);
  }
};

// One weight, for kernels in which speed does not matter. Without the row scale.
__device__ inline float tile_value(const uint8_t* tile, Format format, int row, int column) {
  if (format == Format::bf16)
    return __bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(tile + bf16_at(row, column)));
  if (format == Format::fp8 || format == Format::fp8_block) {
    __nv_fp8_e4m3 value;
    value.__x = tile[fp8_at(row, column)];
    return float(value);
  }
  const Mxfp4At at(row, column);
  const uint32_t word = reinterpret_cast<const uint32_t*>(tile)[at.word];
  const int code = (word >> at.magnitude & 7) | (word >> at.sign & 1) << 3;
  return ldexpf(e2m1_value(code), int(tile[at.exponent]) - kExponentBias);
}

__device__ inline float weight_value(const Tiles& w, int expert, int row, int column) {
  const int64_t block = int64_t(expert) * w.row_blocks + row / kTile;
  const uint8_t* tile = w.data + (block * w.units + column / kTile) * tile_bytes(w.format);
  const float value = tile_value(tile, w.format, row % kTile, column % kTile);
  if (w.block_scales) return value * w.block_scales[block * w.stages() + column / (2 * kTile)];
  return w.row_scales ? value * w.row_scales[block * kTile + row % kTile] : value;
}

}  // namespace rose::cuda
