// How the CPU backend keeps a matrix. Rows stand in groups of 16, so that one loaded piece of an input
// row meets 16 rows at once and no sum crosses the lanes of a register; AVX2 takes half a group. The
// groups follow one another, the experts' matrices too; rows past the last are zero.
//
//   group:   | scales [blocks][16 rows], padded to 64 bytes | values [blocks] |
//
//   q8       scales bf16; a block's values: u8 [8 quads][16 rows][4 columns], each value + 128
//   mxfp4*   scales E8M0; a block's values: u8 [4 chunks][16 rows][4 bytes]; byte i of a chunk c holds
//            column 8 c + i in its low nibble and column 8 c + 4 + i in the high one: two quads
//   bf16     no scales; values: bf16 [columns / 2][16 rows][2 columns], an odd last column padded by zero
//
// The +128 makes a weight the unsigned operand of vpdpbusd; the sum that is too large by 128 times the
// inputs' sum is set right by starting from its negative. E2M1 doubled is an integer from -12 to 12 and
// gets +12 when it is looked up, for the same reason.
#pragma once
#include <cstdint>

#include "kernels/weight.h"
#include "tensor/mxfp4.h"

namespace rose::cpu {

inline constexpr int kGroup = 16;        // rows
inline constexpr int kBlock = kMxBlock;  // columns that share a scale
inline constexpr int kGroupBlock = kGroup * kBlock;
inline constexpr int kQ8Bias = 128;
inline constexpr int kE2M1Bias = 12;

constexpr int groups_of(int rows) { return (rows + kGroup - 1) / kGroup; }
constexpr int blocks_of(int columns) { return (columns + kBlock - 1) / kBlock; }

struct GroupLayout {
  int scale_bytes = 0;    // of a block of a group
  int value_bytes = 0;    // of a block of a group
  int64_t values_at = 0;  // from the start of the group
  int64_t group_bytes = 0;

  constexpr GroupLayout(Format format, int columns) {
    const int64_t blocks = blocks_of(columns);
    switch (format) {
      case Format::bf16: group_bytes = int64_t(columns + 1) / 2 * kGroup * 4; return;
      case Format::q8:
        scale_bytes = kGroup * 2;
        value_bytes = kGroupBlock;
        break;
      case Format::mxfp4:
      case Format::mxfp4_q8:
        scale_bytes = kGroup;
        value_bytes = kGroupBlock / 2;
        break;
      case Format::fp8:
      case Format::fp8_block:
      case Format::mxfp4_fp8: return;  // not of this backend
    }
    values_at = (blocks * scale_bytes + 63) / 64 * 64;
    group_bytes = values_at + blocks * value_bytes;
  }
};

}  // namespace rose::cpu
