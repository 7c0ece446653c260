// The loops over one row of activations, for one instruction set S (simd_*.h): quantising, norms, the
// gate of the experts, rotation, the router. Sums run in sixteen partial sums whatever the register's
// width, joined in a fixed order.
#pragma once
#include "kernels/cpu/kernels.h"
#include "tensor/q8.h"

namespace rose::cpu {
namespace {

template <class S>
[[gnu::noinline]] typename S::F load_tail(const float* f32, const uint16_t* bits, bool is_bf16,
                                          int at, int count) {
  float padded[S::kLanes] = {};
  uint16_t padded_bits[S::kLanes] = {};
  for (int i = 0; at + i < count; ++i) {
    if (is_bf16)
      padded_bits[i] = bits[i];
    else
      padded[i] = f32[i];
  }
  return is_bf16 ? S::load_bf16(padded_bits) : S::load(padded);
}

// Up to a register of a row from element `at` on; what is past `count` is zero.
template <class S>
[[gnu::always_inline]] inline typename S::F load_some(const void* data, bool is_bf16, int at,
                                                      int count) {
  const float* f32 = static_cast<const float*>(data) + at;
  const uint16_t* bits = static_cast<const uint16_t*>(data) + at;
  if (at + S::kLanes <= count) return is_bf16 ? S::load_bf16(bits) : S::load(f32);
  return load_tail<S>(f32, bits, is_bf16, at, count);
}
template <class S>
[[gnu::always_inline]] inline typename S::F load_some(const Row& row, int at, int count) {
  return load_some<S>(row.data, row.is_bf16, at, count);
}

template <class S>
[[gnu::noinline]] void store_tail(float* f32, uint16_t* bits, bool is_bf16, int at, int count,
                                  typename S::F x) {
  float values[S::kLanes];
  uint16_t rounded[S::kLanes];
  S::store(values, x);
  S::store_bf16(rounded, x);
  for (int i = 0; at + i < count; ++i) {
    if (is_bf16)
      bits[i] = rounded[i];
    else
      f32[i] = values[i];
  }
}

template <class S>
[[gnu::always_inline]] inline void store_some(const Row& row, int at, int count, typename S::F x) {
  float* f32 = static_cast<float*>(row.data) + at;
  uint16_t* bits = static_cast<uint16_t*>(row.data) + at;
  if (at + S::kLanes <= count) return row.is_bf16 ? S::store_bf16(bits, x) : S::store(f32, x);
  store_tail<S>(f32, bits, row.is_bf16, at, count, x);
}

// What S rounds to the type of a row, as f32.
template <class S>
typename S::F rounded(const Row& row, typename S::F x) {
  if (!row.is_bf16) return x;
  uint16_t bits[S::kLanes];
  S::store_bf16(bits, x);
  return S::load_bf16(bits);
}

// Sixteen partial sums of a long one.
template <class S>
struct Sum16 {
  static constexpr int kParts = 16 / S::kLanes;
  typename S::F part[kParts];

  Sum16() {
    for (auto& p : part) p = S::zero();
  }
  float total() const {
    float v[16];
    for (int i = 0; i < kParts; ++i) S::store(v + i * S::kLanes, part[i]);
    for (int width = 8; width > 0; width /= 2)
      for (int i = 0; i < width; ++i) v[i] += v[i + width];
    return v[0];
  }
};

// e^x within two units of the last place; 0 under -87, where e^x is hardly a normal number. The
// polynomial is Cephes's expf.
template <class S>
typename S::F exp_of(typename S::F x) {
  using F = typename S::F;
  const F within = S::min(S::set(88), S::max(S::set(-87), x));
  const F n = S::round(S::mul(within, S::set(1.44269504f)));
  const F r = S::fma(n, S::set(2.12194440e-4f), S::fma(n, S::set(-0.693359375f), within));
  F p = S::set(1.9875691500e-4f);
  p = S::fma(p, r, S::set(1.3981999507e-3f));
  p = S::fma(p, r, S::set(8.3334519073e-3f));
  p = S::fma(p, r, S::set(4.1665795894e-2f));
  p = S::fma(p, r, S::set(1.6666665459e-1f));
  p = S::fma(p, r, S::set(5.0000001201e-1f));
  p = S::add(S::fma(p, S::mul(r, r), r), S::set(1));
  return S::zero_where_less(S::mul(p, S::exp2_of_int(n)), x, S::set(-87));
}

// A block of 32 by the rules of tensor/q8.h, to the bit: writes the codes, returns the scale. `Scale`
// gives the scale from the largest magnitude, and `sum` is of the codes.
template <class S, class Scale>
float quantise_block(const Row& x, int block, int columns, int8_t* codes, int32_t& sum,
                     const Scale& scale_of) {
  constexpr int kParts = kQ8Block / S::kLanes;
  typename S::F values[kParts];
  auto bits = S::iset(0);
  for (int i = 0; i < kParts; ++i) {
    values[i] = load_some<S>(x, block * kQ8Block + i * S::kLanes, columns);
    bits = S::imax(bits, S::iand(S::as_int(values[i]), S::iset(0x7fffffff)));
  }
  const int32_t largest_bits = S::largest_of(bits);
  float largest;
  __builtin_memcpy(&largest, &largest_bits, 4);
  const bool broken = largest_bits >= 0x7f800000;
  const bool zero = broken || largest < kQ8Zero;
  float inverse = 0, scale = 0;
  if (!zero) scale_of(largest, inverse, scale);
  auto total = S::iset(0);
  for (int i = 0; i < kParts; ++i) {
    const auto code = zero ? S::iset(0) : S::to_int(S::mul(values[i], S::set(inverse)));
    S::store_i8(codes + i * S::kLanes, code);
    total = S::iadd(total, code);
  }
  sum = S::sum_of(total);
  return broken ? __builtin_nanf("") : scale;
}

template <class S>
void quantise(Row x, int columns, float scale_factor, int bias, int8_t* codes, float* scales,
              int32_t* corrections) {
  for (int block = 0; block < columns / kQ8Block; ++block) {
    int32_t sum;
    scales[block] =
        scale_factor * quantise_block<S>(x, block, columns, codes + block * kQ8Block, sum,
                                         [](float largest, float& inverse, float& scale) {
                                           inverse = 127 / largest;
                                           scale = largest / 127;
                                         });
    corrections[block] = -bias * sum;
  }
}

template <class S>
void quantise_weights(const float* w, int columns, int8_t* codes, uint16_t* scales) {
  for (int block = 0; block < columns / kQ8Block; ++block) {
    int32_t sum;
    const float scale =
        quantise_block<S>({const_cast<float*>(w), false}, block, columns, codes + block * kQ8Block,
                          sum, [](float largest, float& inverse, float& scale) {
                            scale = largest / 127;
                            uint32_t bits;
                            __builtin_memcpy(&bits, &scale, 4);
                            bits = (bits + 0xffff) & 0xffff0000;  // up to the next bf16
                            __builtin_memcpy(&scale, &bits, 4);
                            inverse = 1 / scale;
                          });
    uint32_t bits;
    __builtin_memcpy(&bits, &scale, 4);
    scales[block] = uint16_t(bits >> 16);
  }
}

template <class S>
void convert(Row from, int count, Row to) {
  for (int i = 0; i < count; i += S::kLanes)
    store_some<S>(to, i, count, load_some<S>(from, i, count));
}

// In f64 throughout, as the reference: in f32 one result in some thousands would round to the other bf16, and
// every layer and every choice of the router behind it starts from a norm.
template <class S>
void rms_norm(const NormRow& op) {
  double squares[16] = {};
  for (int i = 0; i < op.hidden; i += S::kLanes) {
    auto x = load_some<S>(op.x, i, op.hidden);
    if (op.add) {
      x = S::add(x, load_some<S>(op.add, op.x.is_bf16, i, op.hidden));
      x = rounded<S>(op.x, x);
      store_some<S>(op.x, i, op.hidden, x);
    }
    float v[S::kLanes];
    S::store(v, x);
    double* part = squares + i % 16;
    for (int lane = 0; lane < S::kLanes; ++lane) part[lane] += double(v[lane]) * double(v[lane]);
  }
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) squares[i] += squares[i + width];

  const double scale = 1 / __builtin_sqrt(squares[0] / double(op.hidden) + double(op.eps));
  for (int i = 0; i < op.hidden; i += S::kLanes) {
    float x[S::kLanes], gain[S::kLanes];
    S::store(x, load_some<S>(op.x, i, op.hidden));
    S::store(gain, load_some<S>(op.gain, false, i, op.hidden));
    for (int lane = 0; lane < S::kLanes; ++lane)
      x[lane] = float(double(x[lane]) * scale * double(gain[lane]));
    store_some<S>(op.y, i, op.hidden, S::load(x));
  }
}

// Four experts at once, so that their chains of additions overlap.
template <class S>
void route(const float* x, const uint16_t* weight, const float* bias, int experts, int hidden,
           float* logits) {
  constexpr int kOnce = 4;
  for (int expert = 0; expert < experts; expert += kOnce) {
    Sum16<S> sums[kOnce];
    const uint16_t* rows[kOnce];
    for (int e = 0; e < kOnce; ++e)
      rows[e] = weight + int64_t(expert + e < experts ? expert + e : expert) * hidden;
    for (int i = 0; i < hidden; i += 16)
      for (int part = 0; part < Sum16<S>::kParts; ++part) {
        const int at = i + part * S::kLanes;
        if (at >= hidden) break;
        const auto values = load_some<S>(x, false, at, hidden);
        for (int e = 0; e < kOnce; ++e)
          sums[e].part[part] =
              S::fma(values, load_some<S>(rows[e], true, at, hidden), sums[e].part[part]);
      }
    for (int e = 0; e < kOnce && expert + e < experts; ++e)
      logits[expert + e] = sums[e].total() + bias[expert + e];
  }
}

// In f64, which the compiler turns into vectors: an angle has up to 2^17 radians, of which a f32's worth
// of digits must be left after whole turns are taken off.
template <class S>
void turn(int position, const float* frequency, int count, float size, float* cos, float* sin) {
  constexpr double kRound = 0x1.8p52;  // added and taken off again: the nearest integer
  constexpr double kQuarter = 0x1.921fb544p0, kQuarterRest = 0x1.0b4611a626331p-34;  // pi / 2
  for (int k = 0; k < count; ++k) {
    const double angle = float(position) * frequency[k];  // a product of f32 numbers
    const double quarters = (angle * 0x1.45f306dc9c883p-1 + kRound) - kRound;
    const double x = (angle - quarters * kQuarter) - quarters * kQuarterRest, xx = x * x;
    const double s =
        x + x * xx *
                (-1.0 / 6 + xx * (1.0 / 120 + xx * (-1.0 / 5040 +
                                                    xx * (1.0 / 362880 + xx * (-1.0 / 39916800)))));
    const double c =
        1 + xx * (-0.5 + xx * (1.0 / 24 +
                               xx * (-1.0 / 720 +
                                     xx * (1.0 / 40320 + xx * (-1.0 / 3628800 + xx / 479001600)))));
    const double turns = quarters * 0.25;
    const double quarter = quarters - 4 * __builtin_floor(turns);  // 0, 1, 2, 3
    const bool odd = quarter == 1 || quarter == 3;
    const double size_c = quarter == 1 || quarter == 2 ? -double(size) : double(size);
    const double size_s = quarter >= 2 ? -double(size) : double(size);
    cos[k] = float((odd ? s : c) * size_c);
    sin[k] = float((odd ? c : s) * size_s);
  }
}

template <class S>
void rotate(Row x, int heads, int head_dim, const float* cos, const float* sin) {
  const int half = head_dim / 2;
  const int element_bytes = x.is_bf16 ? 2 : 4;
  for (int head = 0; head < heads; ++head) {
    char* at = static_cast<char*>(x.data) + int64_t(head) * head_dim * element_bytes;
    const Row low{at, x.is_bf16}, high{at + half * element_bytes, x.is_bf16};
    for (int k = 0; k < half; k += S::kLanes) {
      const auto a = load_some<S>(low, k, half), b = load_some<S>(high, k, half);
      const auto c = load_some<S>(cos, false, k, half), s = load_some<S>(sin, false, k, half);
      store_some<S>(low, k, half, S::fma(a, c, S::mul(S::sub(S::zero(), b), s)));
      store_some<S>(high, k, half, S::fma(b, c, S::mul(a, s)));
    }
  }
}

template <class S>
void swiglu(Row gate_up, int count, float limit, float alpha, Row a) {
  for (int i = 0; i < count; i += S::kLanes) {
    typename S::F gate, up;
    S::unzip(load_some<S>(gate_up, 2 * i, 2 * count),
             2 * i + S::kLanes < 2 * count ? load_some<S>(gate_up, 2 * i + S::kLanes, 2 * count)
                                           : S::zero(),
             gate, up);
    gate = S::min(S::set(limit), gate);
    up = S::max(S::set(-limit), S::min(S::set(limit), up));
    const auto e = exp_of<S>(S::mul(S::set(-alpha), gate));
    const auto gated = S::div(gate, S::add(S::set(1), e));
    store_some<S>(a, i, count, S::mul(gated, S::add(up, S::set(1))));
  }
}

template <class S>
void combine(const Row* x, const float* weights, int terms, int count, Row y) {
  for (int i = 0; i < count; i += S::kLanes) {
    auto sum = S::zero();
    for (int k = 0; k < terms; ++k)
      sum = S::fma(S::set(weights[k]), load_some<S>(x[k], i, count), sum);
    store_some<S>(y, i, count, sum);
  }
}

}  // namespace
}  // namespace rose::cpu
