// bfloat16: the upper half of a float. Rounds to nearest, ties to even; a NaN stays a NaN.
#pragma once
#include <bit>

#include "tensor/tensor.h"

namespace rose {

inline float to_f32(bf16 value) { return std::bit_cast<float>(uint32_t(value.bits) << 16); }
inline float to_f32(float value) { return value; }

inline bf16 to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return {uint16_t((bits >> 16) | 0x40)};
  return {uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

// Stores a float as T, rounding once.
template <class T>
T from_f32(float value) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(value);
  else
    return value;
}

}  // namespace rose
