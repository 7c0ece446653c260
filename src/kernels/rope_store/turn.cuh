// The rotation of a pair (rope_store.h).
#pragma once
#include "device/warp.cuh"

namespace rose::cuda {

// Sine and cosine of an angle of up to 10^5 radians, to f32's precision: the turns are taken off in f64, which
// is quick here, unlike the reduction inside sincosf.
__device__ inline void sine_cosine(float angle, float& sine, float& cosine) {
  constexpr double kQuartersPerRadian = 0.63661977236758134308;
  const double quarters = double(angle) * kQuartersPerRadian;
  const double whole = rint(quarters);
  float s, c;
  sincospif(float(quarters - whole) * 0.5f, &s, &c);
  const int quadrant = int(int64_t(whole)) & 3;
  sine = quadrant == 0 ? s : quadrant == 1 ? c : quadrant == 2 ? -s : -c;
  cosine = quadrant == 0 ? c : quadrant == 1 ? -s : quadrant == 2 ? -c : s;
}

// Cosine and sine of a pair at a position, as they are used with activations of type T.
template <class T>
__device__ inline float2 turn_of(int position, float inverse_frequency, float concentration) {
  float s, c;
  sine_cosine(float(position) * inverse_frequency, s, c);
  return make_float2(rounded<T>(c * concentration), rounded<T>(s * concentration));
}

}  // namespace rose::cuda
