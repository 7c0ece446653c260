// Tokens laid out for grouped.cuh: for each segment and stage (128 columns) one record, as a block's shared
// memory takes it.
//
//   | two units of kTokens x 64 columns, swizzled | scales  f32 [kTokens], in the order of scale_slot |
//
//   E4M3  rows of 64 bytes; the scale is the largest of the token's 128 columns / 448
//   bf16  rows of 128 bytes, no scales
//   f16   the same, columns permuted inside each 16: column 4c + j stands at 2c + j % 2 + j / 2 * 8, where
//         the registers of an expanded MXFP4 tile want it
//
// Places of tokens that a segment does not have hold zeros.
#pragma once
#include "device/arena.h"
#include "device/launch.cuh"
#include "device/warp.cuh"
#include "kernels/matmul/grouped_shape.cuh"
#include "kernels/matmul/segments.cuh"
#include "kernels/matmul/token_e4m3.cuh"

namespace rose::cuda {

struct TokenRecords {
  uint8_t* records;
  const __nv_bfloat16* x;  // [.., columns]
  int columns, stages;
  SegmentList segments;
};

// A lane's four columns of a token: columns past the last are zero.
__device__ __forceinline__ uint2 load_four(const __nv_bfloat16* x, int column, int columns) {
  const int left = columns - column;
  if (left >= 4 && columns % 4 == 0) return *reinterpret_cast<const uint2*>(x + column);
  uint32_t pairs[2] = {};
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (j < left) pairs[j / 2] |= uint32_t(__bfloat16_as_ushort(x[column + j])) << 16 * (j % 2);
  return {pairs[0], pairs[1]};
}

// A warp's token, four columns a lane, into its place in a record.
template <TokenForm kForm, int kTokens>
__device__ __forceinline__ void store_token(uint8_t* record, int token, const uint2& four) {
  constexpr int kRowBytes = unit_bytes(kForm), kUnitBytes = kTokens * kRowBytes;
  const int lane = threadIdx.x % kWarp, unit = lane / 16, in_unit = lane % 16 * 4;
  uint8_t* row = record + unit * kUnitBytes + token * kRowBytes;
  if constexpr (kForm == TokenForm::e4m3) {
    const E4m3Four e4m3 = four_e4m3(four);
    const int chunk = in_unit / 16 ^ token / 2 % 4;
    *reinterpret_cast<uint32_t*>(row + chunk * 16 + in_unit % 16) = e4m3.codes;
    if (lane == 0)
      reinterpret_cast<float*>(record + 2 * kUnitBytes)[scale_slot(token)] = e4m3.scale;
  } else if constexpr (kForm == TokenForm::bf16) {
    const int chunk = in_unit / 8 ^ token % 8;
    *reinterpret_cast<uint2*>(row + chunk * 16 + in_unit % 8 * 2) = four;
  } else {
    const uint32_t pairs[2] = {four.x, four.y};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int place = in_unit / 16 * 16 + in_unit % 16 / 2 + 8 * i;
      const int chunk = place / 8 ^ token % 8;
      *reinterpret_cast<uint32_t*>(row + chunk * 16 + place % 8 * 2) = bf16_to_f16(pairs[i]);
    }
  }
}

constexpr int kRecordThreads = 256;

// A warp a token.
//   grid   stages, segments, parts of up to 32 tokens
template <TokenForm kForm, int kTokens>
__global__ void __launch_bounds__(kRecordThreads)
    token_records_kernel(const __grid_constant__ TokenRecords p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int stage = blockIdx.x, at = blockIdx.y;
  if (at >= p.segments.count(kTokens)) return;
  const Segment segment = p.segments.at(at, kTokens);
  uint8_t* record = p.records + (int64_t(at) * p.stages + stage) * record_bytes(kForm, kTokens);
  const int column = stage * 2 * kTile + threadIdx.x % kWarp * 4;

  constexpr int kPart = kTokens < 32 ? kTokens : 32;
  const int first = blockIdx.z * kPart + threadIdx.x / kWarp;
#pragma unroll
  for (int token = first; token < first + kPart; token += kRecordThreads / kWarp) {
    uint2 four = {};
    if (token < segment.count)
      four =
          load_four(p.x + int64_t(p.segments.row(segment, token)) * p.columns, column, p.columns);
    store_token<kForm, kTokens>(record, token, four);
  }
}

// Room for them in scratch memory.
template <class S>
uint8_t* take_token_records(Stream& stream, int most_segments, int columns) {
  const int64_t stages = (columns + 2 * kTile - 1) / (2 * kTile);
  return stream.scratch->take(DType::u8, {most_segments * stages * S::kRecordBytes})
      .template as<uint8_t>();
}

template <class S>
void make_token_records(Stream& stream, int most_segments, const TokenRecords& tokens) {
  constexpr int kParts = (S::kTokens + 31) / 32;
  launch<token_records_kernel<S::Format::kForm, S::kTokens>>(
      "token records",
      {.blocks = dim3(unsigned(tokens.stages), unsigned(most_segments), kParts),
       .threads = kRecordThreads},
      stream, tokens);
}

}  // namespace rose::cuda
