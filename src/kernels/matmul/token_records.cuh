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

namespace rose::cuda {

struct TokenRecords {
  uint8_t* records;
  const __nv_bfloat16* x;  // [.., columns]
  int columns, stages;
  SegmentList segments;
};

// Four bf16 of each lane of a warp as E4M3, with one scale for all 128.
struct E4m3Four {
  uint32_t codes;
  float scale;
};
__device__ __forceinline__ E4m3Four four_e4m3(const uint32_t (&pairs)[2]) {
  float values[4], most = 0;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    values[j] = __uint_as_float(j % 2 ? pairs[j / 2] & 0xffff0000u : pairs[j / 2] << 16);
    most = fmaxf(most, fabsf(values[j]));
  }
  most = warp_max(most);
  constexpr float kLeast = 1e-30f;  // below it all is zero: 448 / most must be a number
  const float inverse = most > kLeast ? 448 / most : 0;
  return {pack_e4m3(values[0] * inverse, values[1] * inverse) |
              uint32_t(pack_e4m3(values[2] * inverse, values[3] * inverse)) << 16,
          most > kLeast ? most / 448 : 0};
}

constexpr int kRecordThreads = 256;

// A warp a token, four columns a lane.
//   grid   stages, segments, parts of up to 32 tokens
template <TokenForm kForm, int kTokens>
__global__ void __launch_bounds__(kRecordThreads)
    token_records_kernel(const __grid_constant__ TokenRecords p) {
  constexpr int kRowBytes = unit_bytes(kForm), kUnitBytes = kTokens * kRowBytes;
  constexpr int kRecordBytes = record_bytes(kForm, kTokens);
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int stage = blockIdx.x, at = blockIdx.y;
  if (at >= p.segments.count(kTokens)) return;
  const Segment segment = p.segments.at(at, kTokens);
  uint8_t* record = p.records + (int64_t(at) * p.stages + stage) * kRecordBytes;
  const int lane = threadIdx.x % kWarp, unit = lane / 16, in_unit = lane % 16 * 4;
  const int column = stage * 2 * kTile + lane * 4, left = p.columns - column;

  constexpr int kPart = kTokens < 32 ? kTokens : 32;
  const int first = blockIdx.z * kPart + threadIdx.x / kWarp;
#pragma unroll
  for (int token = first; token < first + kPart; token += kRecordThreads / kWarp) {
    uint32_t pairs[2] = {};  // bf16
    if (token < segment.count && left > 0) {
      const __nv_bfloat16* x = p.x + int64_t(p.segments.row(segment, token)) * p.columns + column;
      if (left >= 4 && p.columns % 4 == 0) {
        const uint2 values = *reinterpret_cast<const uint2*>(x);
        pairs[0] = values.x, pairs[1] = values.y;
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (j < left) pairs[j / 2] |= uint32_t(__bfloat16_as_ushort(x[j])) << 16 * (j % 2);
      }
    }
    uint8_t* row = record + unit * kUnitBytes + token * kRowBytes;
    if constexpr (kForm == TokenForm::e4m3) {
      const E4m3Four four = four_e4m3(pairs);
      const int chunk = in_unit / 16 ^ token / 2 % 4;
      *reinterpret_cast<uint32_t*>(row + chunk * 16 + in_unit % 16) = four.codes;
      if (lane == 0)
        reinterpret_cast<float*>(record + 2 * kUnitBytes)[scale_slot(token)] = four.scale;
    } else if constexpr (kForm == TokenForm::bf16) {
      const int chunk = in_unit / 8 ^ token % 8;
      *reinterpret_cast<uint2*>(row + chunk * 16 + in_unit % 8 * 2) =
          make_uint2(pairs[0], pairs[1]);
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int place = in_unit / 16 * 16 + in_unit % 16 / 2 + 8 * i;
        const int chunk = place / 8 ^ token % 8;
        *reinterpret_cast<uint32_t*>(row + chunk * 16 + place % 8 * 2) = bf16_to_f16(pairs[i]);
      }
    }
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
