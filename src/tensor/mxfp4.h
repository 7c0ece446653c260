// MXFP4: blocks of 32 values along the input axis; 16 bytes of E2M1 codes and one E8M0 scale byte.
//
//   byte b of a block:  | high nibble: element 2b+1 | low nibble: element 2b |
//   value = kE2M1[code] * 2^(scale - 127)
//
// (OCP Microscaling Formats 1.0; the nibble order is that of the gpt-oss checkpoints.)
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace rose {

inline constexpr int kMxBlock = 32;       // values that share a scale
inline constexpr int kMxBlockBytes = 16;  // codes of a block

inline constexpr float kE2M1[16] = {0.f,  .5f,  1.f,  1.5f,  2.f,  3.f,  4.f,  6.f,
                                    -0.f, -.5f, -1.f, -1.5f, -2.f, -3.f, -4.f, -6.f};

// 2^(scale - 127); the byte 0 is a subnormal float, 255 (reserved for NaN) is NaN.
inline float e8m0_to_f32(uint8_t scale) {
  if (scale == 255) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(scale == 0 ? 0x00400000u : uint32_t(scale) << 23);
}

inline float mxfp4_value(const uint8_t* codes, uint8_t scale, int element) {
  const uint8_t byte = codes[element / 2];
  return kE2M1[element % 2 ? byte >> 4 : byte & 15] * e8m0_to_f32(scale);
}

}  // namespace rose
