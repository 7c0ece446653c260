// E4M3: a sign, four bits of exponent, three of mantissa; the largest number is 448, there is no
// infinity, and 0x7f is NaN. (OCP 8-bit Floating Point Specification 1.0.)
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace rose {

inline constexpr float kLargestE4m3 = 448;

inline float e4m3_to_f32(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  float magnitude = exponent == 0 ? std::ldexp(float(mantissa), -9)
                                  : std::ldexp(float(8 + mantissa), exponent - 10);
  if ((bits & 0x7f) == 0x7f) magnitude = NAN;
  return bits & 0x80 ? -magnitude : magnitude;
}

// The nearest, ties to even; past the largest, the largest.
inline uint8_t to_e4m3(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7f;
  const float magnitude = std::min(std::fabs(value), kLargestE4m3);
  if (magnitude < 0x1p-6f)  // subnormal: multiples of 2^-9; eight of them are the first normal one
    return sign | uint8_t(std::nearbyint(magnitude * 0x1p9f));
  const int exponent = std::ilogb(magnitude);
  const int eighths = int(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));  // 8..16
  return sign | uint8_t(((exponent + 7) << 3) + eighths - 8);
}

// One scale for this many rows and columns.
inline constexpr int kFp8Block = 128;

// The scale of a block: the least power of two (of those that f32 has as normal numbers) with which its
// largest magnitude fits. A power of two costs none of E4M3's bits, and numbers of MXFP4 stay exact while
// the exponents of their blocks lie within 15 of each other.
constexpr float fp8_block_scale(float largest) {
  const uint32_t bits = std::bit_cast<uint32_t>(largest);
  if (bits == 0) return 1;
  if (bits >= 0x7f800000) return largest;  // no number: it stays visible
  const int exponent = int(bits >> 23) - ((bits & 0x7fffff) > 0x600000 ? 7 : 8);  // 448: 1.75 * 2^8
  return std::bit_cast<float>(uint32_t(exponent > 1 ? exponent : 1) << 23);
}

}  // namespace rose
