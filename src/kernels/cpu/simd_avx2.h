// The vector vocabulary of the kernels in AVX2 with FMA: eight lanes, half a group of rows. See
// simd_avx512.h, which has the same words.
#pragma once
#include <immintrin.h>

#include <cstdint>

namespace rose::cpu {
namespace {

struct Avx2 {
  static constexpr int kLanes = 8;
  static constexpr int kTokens = 3;
  static constexpr int kStrips = 1;
  static constexpr int kTokensOnce = 3;
  static constexpr int kSums = 8;
  using F = __m256;
  using I = __m256i;

  static F zero() { return _mm256_setzero_ps(); }
  static F set(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static F load_bf16(const uint16_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
  }
  static void store_bf16(uint16_t* p, F x) {
    const I bits = _mm256_castps_si256(x);
    const I odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const I up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const I quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const I nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const I high = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
    const I packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F max(F a, F b) { return _mm256_max_ps(a, b); }
  static F min(F a, F b) { return _mm256_min_ps(a, b); }
  static F zero_where_less(F x, F a, F b) {
    return _mm256_and_ps(x, _mm256_cmp_ps(a, b, _CMP_NLT_UQ));
  }
  static F round(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static F exp2_of_int(F n) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
  }

  static I iset(int32_t x) { return _mm256_set1_epi32(x); }
  // Four bytes in every lane, straight from memory: from a general register it would cost a shuffle.
  static I broadcast4(const int8_t* p) {
    int32_t four;
    __builtin_memcpy(&four, p, 4);
    return _mm256_set1_epi32(four);
  }
  static I iload(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void istore(void* p, I x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
  static F as_float(I x) { return _mm256_castsi256_ps(x); }
  static I as_int(F x) { return _mm256_castps_si256(x); }
  static F to_float(I x) { return _mm256_cvtepi32_ps(x); }
  static I to_int(F x) { return _mm256_cvtps_epi32(x); }
  static I iadd(I a, I b) { return _mm256_add_epi32(a, b); }
  static I iand(I a, I b) { return _mm256_and_si256(a, b); }
  static I imax(I a, I b) { return _mm256_max_epi32(a, b); }
  template <int kBits>
  static I shift_left(I x) {
    return _mm256_slli_epi32(x, kBits);
  }
  template <int kBits>
  static I shift_right(I x) {
    return _mm256_srli_epi32(x, kBits);
  }
  static I or_where_equal(I x, I a, I b, I bits) {
    return _mm256_or_si256(x, _mm256_and_si256(_mm256_cmpeq_epi32(a, b), bits));
  }
  static F select_within(I at, I first, I last, F x, F other) {
    const I out = _mm256_or_si256(_mm256_cmpgt_epi32(first, at), _mm256_cmpgt_epi32(at, last));
    return _mm256_blendv_ps(x, other, _mm256_castsi256_ps(out));
  }
  static I load_u8(const uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static void store_i8(int8_t* p, I x) {
    const I words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x, x), 0x08);
    const __m128i low = _mm256_castsi256_si128(words);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(low, low));
  }

  static int32_t sum_of(I x) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
  }
  static int32_t largest_of(I x) {
    __m128i top = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(top, _mm_shuffle_epi32(top, 0xb1)));
  }
  static void unzip(F a, F b, F& even, F& odd) {
    const auto order = [](F x) {  // the two halves of each lane pair brought together
      return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
    };
    even = order(_mm256_shuffle_ps(a, b, 0x88));
    odd = order(_mm256_shuffle_ps(a, b, 0xdd));
  }

  static I lookup(I table, I nibbles) { return _mm256_shuffle_epi8(table, nibbles); }
  static I table(const int8_t (&t)[16]) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(t)));
  }

  // maddubs adds two products in 16 bits: safe up to 32767 = 2 * 127 * 129. A weight biased by 128 is
  // therefore met as |w| and x with the sign of w, and needs no correction; one biased by 12 is at most
  // 24 and is met as it is.
  template <int kBias>
  static I start(int32_t correction) {
    return kBias > 64 ? _mm256_setzero_si256() : _mm256_set1_epi32(correction);
  }
  template <int kBias>
  static I dot4(I sum, I w, I x) {
    if constexpr (kBias > 64) {
      w = _mm256_xor_si256(w, _mm256_set1_epi8(char(0x80)));
      x = _mm256_sign_epi8(x, w);
      w = _mm256_abs_epi8(w);
    }
    const I pairs = _mm256_maddubs_epi16(w, x);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }

  template <int kNibble>
  static F e2m1(I chunk) {
    constexpr int8_t kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const I nibbles = iand(kNibble % 2 ? shift_right<4>(chunk) : chunk, _mm256_set1_epi8(15));
    const I bytes = lookup(table(kDoubled), nibbles);
    return to_float(_mm256_srai_epi32(_mm256_slli_epi32(bytes, 24 - kNibble / 2 * 8), 24));
  }
};

}  // namespace
}  // namespace rose::cpu
