// q8: blocks of 32 int8 along the input axis, one scale each. Weights of the format q8 and the
// activations that meet q8 or mxfp4_q8 weights are quantised by these rules, by every backend, to the bit:
//
//   largest = max |x| of the block
//   activations: scale = largest / 127                       code_i = nearest to x_i * (127 / largest)
//   weights:     scale = largest / 127, up to the next bf16   code_i = nearest to w_i * (1 / scale)
//
// ties to even. A weight's scale is thus two bytes of memory, not four (34 instead of 36 for 32 weights);
// rounding it up first and dividing by what is kept costs under 1 % of a step, and no code passes 127. All
// in f32. A block whose largest is under kQ8Zero is zero: scale 0, codes 0. A block that holds an
// infinity or a NaN gets the scale NaN and codes 0, so that broken numbers stay visible. (The largest of
// |x|'s bits, compared as unsigned integers, tells all three apart: NaN > infinity > every number.)
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rose {

inline constexpr int kQ8Block = 32;          // values that share a scale
inline constexpr float kQ8Zero = 0x1p-100f;  // 127 / largest must stay a number

enum class Q8Scale { f32, bf16_up };  // of activations, of weights

// Returns the scale, writes the codes: value_i = scale * code_i.
inline float quantise_q8(const float (&x)[kQ8Block], int8_t (&codes)[kQ8Block],
                         Q8Scale kind = Q8Scale::f32) {
  uint32_t bits = 0;
  for (const float value : x) bits = std::max(bits, std::bit_cast<uint32_t>(std::fabs(value)));
  const float largest = std::bit_cast<float>(bits);
  const bool broken = !std::isfinite(largest);
  const bool zero = broken || largest < kQ8Zero;
  float scale = zero ? 0 : largest / 127;
  float inverse = zero ? 0 : 127 / largest;
  if (kind == Q8Scale::bf16_up && !zero) {
    scale = std::bit_cast<float>((std::bit_cast<uint32_t>(scale) + 0xffff) & 0xffff0000);
    inverse = 1 / scale;
  }
  for (int i = 0; i < kQ8Block; ++i) codes[i] = zero ? 0 : int8_t(std::nearbyint(x[i] * inverse));
  if (broken) return std::numeric_limits<float>::quiet_NaN();
  return scale;
}

}  // namespace rose
