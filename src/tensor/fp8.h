// E4M3: a sign, four bits of exponent, three of mantissa; the largest number is 448, there is no
// infinity, and 0x7f is NaN. (OCP 8-bit Floating Point Specification 1.0.)
#pragma once
#include <algorithm>
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

}  // namespace rose
