// The vector vocabulary of the kernels, in AVX-512 with VNNI: sixteen lanes. Everything in these headers
// is in an unnamed namespace and free of std:: functions: code compiled with one instruction set must
// not be what the linker keeps for another file.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace rose::cpu {
namespace {

struct Avx512 {
  static constexpr int kLanes = 16;
  static constexpr int kTokens = 6;  // of a tile of two strips of rows: what the registers hold
  static constexpr int kStrips = 2;
  static constexpr int kTokensOnce = 8;  // tokens a tile of one strip takes
  static constexpr int kSums = 16;       // running sums that a loop keeps in registers
  using F = __m512;
  using I = __m512i;

  static F zero() { return _mm512_setzero_ps(); }
  static F set(float x) { return _mm512_set1_ps(x); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static F load_bf16(const uint16_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
  }
  // Nearest, ties to even; a NaN stays one (tensor/bf16.h).
  static void store_bf16(uint16_t* p, F x) {
    const I bits = _mm512_castps_si512(x);
    const I odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    I up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    up = _mm512_mask_or_epi32(up, nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
  }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm512_max_ps(a, b); }  // b where either is a NaN
  static F min(F a, F b) { return _mm512_min_ps(a, b); }  // likewise
  static F zero_where_less(F x, F a, F b) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), x);
  }
  // Nearest integer, and the power of two of one.
  static F round(F x) { return _mm512_roundscale_ps(x, 0); }
  static F exp2_of_int(F n) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
  }

  static I iset(int32_t x) { return _mm512_set1_epi32(x); }
  // Four bytes in every lane, straight from memory: from a general register it would cost a shuffle.
  static I broadcast4(const int8_t* p) {
    int32_t four;
    __builtin_memcpy(&four, p, 4);
    return _mm512_set1_epi32(four);
  }
  static I iload(const void* p) { return _mm512_loadu_si512(p); }
  static void istore(void* p, I x) { _mm512_storeu_si512(p, x); }
  static F as_float(I x) { return _mm512_castsi512_ps(x); }
  static I as_int(F x) { return _mm512_castps_si512(x); }
  static F to_float(I x) { return _mm512_cvtepi32_ps(x); }
  static I to_int(F x) { return _mm512_cvtps_epi32(x); }
  static I iadd(I a, I b) { return _mm512_add_epi32(a, b); }
  static I iand(I a, I b) { return _mm512_and_si512(a, b); }
  static I imax(I a, I b) { return _mm512_max_epi32(a, b); }
  template <int kBits>
  static I shift_left(I x) {
    return _mm512_slli_epi32(x, kBits);
  }
  template <int kBits>
  static I shift_right(I x) {
    return _mm512_srli_epi32(x, kBits);
  }
  static I or_where_equal(I x, I a, I b, I bits) {
    return _mm512_mask_or_epi32(x, _mm512_cmpeq_epi32_mask(a, b), x, bits);
  }
  // `x` where lanes of `at` lie in [first, last], else `other`.
  static F select_within(I at, I first, I last, F x, F other) {
    const __mmask16 in = _mm512_cmpge_epi32_mask(at, first) & _mm512_cmple_epi32_mask(at, last);
    return _mm512_mask_mov_ps(other, in, x);
  }
  static I load_u8(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static void store_i8(int8_t* p, I x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x));
  }

  static int32_t sum_of(I x) { return _mm512_reduce_add_epi32(x); }
  static int32_t largest_of(I x) { return _mm512_reduce_max_epi32(x); }
  // Of the 2 * kLanes floats a | b: those at even and at odd places.
  static void unzip(F a, F b, F& even, F& odd) {
    const I at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    even = _mm512_permutex2var_ps(a, at, b);
    odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(at, _mm512_set1_epi32(1)), b);
  }

  // Sixteen bytes looked up by the low nibble of each byte (its bit 7 clear).
  static I lookup(I table, I nibbles) { return _mm512_shuffle_epi8(table, nibbles); }
  static I table(const int8_t (&t)[16]) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(t)));
  }

  // Lane by lane: start + sum of four (w - bias) * x. Here w is taken as it is, unsigned, and `start`
  // has minus the bias's share in it.
  template <int kBias>
  static I start(int32_t correction) {
    return _mm512_set1_epi32(correction);
  }
  template <int kBias>
  static I dot4(I sum, I w, I x) {
    return _mm512_dpbusd_epi32(sum, w, x);
  }

  // Nibble `kNibble` of each lane of a chunk of MXFP4 (layout.h), looked up and doubled.
  template <int kNibble>
  static F e2m1(I chunk) {
    const F values = _mm512_setr_ps(0, 1, 2, 3, 4, 6, 8, 12, -0.f, -1, -2, -3, -4, -6, -8, -12);
    return _mm512_permutexvar_ps(_mm512_srli_epi32(chunk, 4 * kNibble), values);
  }
};

}  // namespace
}  // namespace rose::cpu
