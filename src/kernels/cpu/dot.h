// The inner products of all formats, for one instruction set S (simd_*.h). A tile is `strips` registers
// of rows by `tokens` rows of inputs, its sums in registers while the columns stream past.
//
// The order of additions is fixed by the format alone:
//   int8 inputs  sum <- fma(integer sum of a block, weight scale * input scale, sum), block by block
//   bf16         even columns into one sum, odd ones into another, in order; then even + odd
//   mxfp4        the same within a block, then sum <- fma(even + odd, scale, sum)
// so tiles of every size give the same bits.
#pragma once
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/layout.h"

namespace rose::cpu {
namespace {

// One register of rows: where their values and scales begin.
struct Strip {
  const uint8_t* values;
  const uint8_t* scales;
};

// Formats that meet int8: eight quads of columns a block, two at a time.
struct Q8 {
  static constexpr Format kFormat = Format::q8;
  static constexpr int kBias = kQ8Bias;
  static constexpr int kPairBytes = 2 * 64;
  static constexpr int kScaleBytes = 2;
  template <class S>
  static void pair(const uint8_t* values, typename S::I& first, typename S::I& second) {
    first = S::iload(values);
    second = S::iload(values + 64);
  }
  template <class S>
  static typename S::F scale(const uint8_t* scales) {
    return S::load_bf16(reinterpret_cast<const uint16_t*>(scales));
  }
};

// 2^(byte - 127), as e8m0_to_f32: zero is a subnormal, 255 a NaN.
template <class S>
typename S::F e8m0(const uint8_t* scales) {
  const auto bytes = S::load_u8(scales);
  const auto bits = S::imax(S::template shift_left<23>(bytes), S::iset(0x00400000));
  return S::as_float(S::or_where_equal(bits, bytes, S::iset(255), S::iset(0x00400000)));
}

struct Mxfp4 {
  static constexpr Format kFormat = Format::mxfp4_q8;
  static constexpr int kBias = kE2M1Bias;
  static constexpr int kPairBytes = 64;
  static constexpr int kScaleBytes = 1;
  template <class S>
  static void pair(const uint8_t* values, typename S::I& first, typename S::I& second) {
    constexpr int8_t kBiased[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    const auto table = S::table(kBiased);
    const auto chunk = S::iload(values);
    const auto low = S::iset(0x0f0f0f0f);
    first = S::lookup(table, S::iand(chunk, low));
    second = S::lookup(table, S::iand(S::template shift_right<4>(chunk), low));
  }
  template <class S>
  static typename S::F scale(const uint8_t* scales) {
    return e8m0<S>(scales);
  }
};

// MXFP4 that many tiles will read: looked up once, then met like q8.
struct Mxfp4Expanded : Q8 {
  static constexpr int kBias = kE2M1Bias;
  static constexpr int kScaleBytes = 1;
  template <class S>
  static typename S::F scale(const uint8_t* scales) {
    return e8m0<S>(scales);
  }
};

// Asks for bytes that will be needed soon, into the second cache.
template <int kBytes>
inline void prefetch(const uint8_t* bytes) {
#pragma GCC unroll 16
  for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(bytes + i, 0, 2);
}

// How far ahead in a stream of weights: about what memory takes to answer. Without it the loads of a
// tile wait for memory while nothing is multiplied, and a tile of eight tokens reads at 55 % of what
// memory gives instead of 77 %.
constexpr int kStreamAhead = 4096;

// Weights that are read for many tiles do not stream; while they are multiplied, those that come next
// are asked for, two lines a block.
struct Next {
  const uint8_t* bytes;
  int64_t size;
};
constexpr int kNextBytes = 128;

// sum[strip][token] of a tile, int8 inputs.
template <class S, class W, int kStrips, int kTokens>
void int8_tile(const Strip* strips, const Inputs& x, const int64_t* rows, int blocks,
               const uint8_t* next, typename S::F (&sum)[kStrips][kTokens]) {
  using I = typename S::I;
  using F = typename S::F;
  const int8_t* codes[kTokens];
  const float* x_scales[kTokens];
  const int32_t* corrections[kTokens];
#pragma GCC unroll 16
  for (int t = 0; t < kTokens; ++t) {
    codes[t] = x.codes + rows[t] * x.stride;
    x_scales[t] = x.scales + rows[t] * (x.stride / kBlock);
    corrections[t] = x.corrections + rows[t] * (x.stride / kBlock);
#pragma GCC unroll 16
    for (int s = 0; s < kStrips; ++s) sum[s][t] = S::zero();
  }
  for (int block = 0; block < blocks; ++block) {
    constexpr int kBlockBytes = W::kPairBytes * 4;
    if constexpr (kStrips == 1)
      prefetch<kBlockBytes>(strips[0].values + block * int64_t(kBlockBytes) + kStreamAhead);
    else
      prefetch<kNextBytes>(next + block * int64_t(kNextBytes));
    I dot[kStrips][kTokens];
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t)
#pragma GCC unroll 16
      for (int s = 0; s < kStrips; ++s)
        dot[s][t] = S::template start<W::kBias>(corrections[t][block]);
#pragma GCC unroll 4
    for (int pair = 0; pair < 4; ++pair) {
      I first[kStrips], second[kStrips];
#pragma GCC unroll 16
      for (int s = 0; s < kStrips; ++s)
        W::template pair<S>(strips[s].values + (block * 4 + pair) * int64_t(W::kPairBytes),
                            first[s], second[s]);
#pragma GCC unroll 16
      for (int t = 0; t < kTokens; ++t) {
        const int8_t* x8 = codes[t] + block * kBlock + pair * 8;
        const I x_first = S::broadcast4(x8), x_second = S::broadcast4(x8 + 4);
#pragma GCC unroll 16
        for (int s = 0; s < kStrips; ++s)
          dot[s][t] = S::template dot4<W::kBias>(dot[s][t], first[s], x_first);
#pragma GCC unroll 16
        for (int s = 0; s < kStrips; ++s)
          dot[s][t] = S::template dot4<W::kBias>(dot[s][t], second[s], x_second);
      }
    }
#pragma GCC unroll 16
    for (int s = 0; s < kStrips; ++s) {
      const F scale = W::template scale<S>(strips[s].scales + block * kGroup * W::kScaleBytes);
#pragma GCC unroll 16
      for (int t = 0; t < kTokens; ++t)
        sum[s][t] =
            S::fma(S::to_float(dot[s][t]), S::mul(scale, S::set(x_scales[t][block])), sum[s][t]);
    }
  }
}

struct Bf16 {
  static constexpr Format kFormat = Format::bf16;
};
struct Mxfp4Float {
  static constexpr Format kFormat = Format::mxfp4;
};

template <class S, int kStrips, int kTokens>
void bf16_tile(const Strip* strips, const float* const* x, int pairs,
               typename S::F (&sum)[kStrips][kTokens]) {
  using F = typename S::F;
  F odd_sum[kStrips][kTokens];
#pragma GCC unroll 16
  for (int s = 0; s < kStrips; ++s)
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) sum[s][t] = odd_sum[s][t] = S::zero();
  for (int pair = 0; pair < pairs; ++pair) {
    if constexpr (kStrips == 1) prefetch<64>(strips[0].values + pair * int64_t(64) + kStreamAhead);
    F even[kStrips], odd[kStrips];
#pragma GCC unroll 16
    for (int s = 0; s < kStrips; ++s) {
      const auto w = S::iload(strips[s].values + pair * int64_t(kGroup * 4));
      even[s] = S::as_float(S::template shift_left<16>(w));
      odd[s] = S::as_float(S::iand(w, S::iset(int32_t(0xffff0000))));
    }
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) {
      const F x0 = S::set(x[t][2 * pair]), x1 = S::set(x[t][2 * pair + 1]);
#pragma GCC unroll 16
      for (int s = 0; s < kStrips; ++s) {
        sum[s][t] = S::fma(even[s], x0, sum[s][t]);
        odd_sum[s][t] = S::fma(odd[s], x1, odd_sum[s][t]);
      }
    }
  }
#pragma GCC unroll 16
  for (int s = 0; s < kStrips; ++s)
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) sum[s][t] = S::add(sum[s][t], odd_sum[s][t]);
}

// One nibble of a chunk: a column's values of all strips against all tokens.
template <class S, int kNibble, int kStrips, int kTokens>
inline __attribute__((always_inline)) void add_column(const typename S::I (&chunk)[kStrips],
                                                      const float* const* x, int column,
                                                      typename S::F (&sum)[kStrips][kTokens]) {
#pragma GCC unroll 16
  for (int s = 0; s < kStrips; ++s) {
    const auto w = S::template e2m1<kNibble>(chunk[s]);
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t)
      sum[s][t] = S::fma(w, S::set(x[t][column + kNibble / 2 + kNibble % 2 * 4]), sum[s][t]);
  }
}

template <class S, int kStrips, int kTokens>
void mxfp4_tile(const Strip* strips, const float* const* x, int blocks,
                typename S::F (&sum)[kStrips][kTokens]) {
  using F = typename S::F;
#pragma GCC unroll 16
  for (int s = 0; s < kStrips; ++s)
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) sum[s][t] = S::zero();
  for (int block = 0; block < blocks; ++block) {
    if constexpr (kStrips == 1)
      prefetch<256>(strips[0].values + block * int64_t(256) + kStreamAhead);
    F low[kStrips][kTokens], high[kStrips][kTokens];
#pragma GCC unroll 16
    for (int s = 0; s < kStrips; ++s)
#pragma GCC unroll 16
      for (int t = 0; t < kTokens; ++t) low[s][t] = high[s][t] = S::zero();
    for (int c = 0; c < 4; ++c) {
      typename S::I chunk[kStrips];
#pragma GCC unroll 16
      for (int s = 0; s < kStrips; ++s)
        chunk[s] = S::iload(strips[s].values + (block * 4 + c) * int64_t(64));
      const int column = block * kBlock + c * 8;
      add_column<S, 0>(chunk, x, column, low);
      add_column<S, 1>(chunk, x, column, high);
      add_column<S, 2>(chunk, x, column, low);
      add_column<S, 3>(chunk, x, column, high);
      add_column<S, 4>(chunk, x, column, low);
      add_column<S, 5>(chunk, x, column, high);
      add_column<S, 6>(chunk, x, column, low);
      add_column<S, 7>(chunk, x, column, high);
    }
#pragma GCC unroll 16
    for (int s = 0; s < kStrips; ++s) {
      const F scale = S::mul(e8m0<S>(strips[s].scales + block * kGroup), S::set(0.5f));
#pragma GCC unroll 16
      for (int t = 0; t < kTokens; ++t)
        sum[s][t] = S::fma(S::add(low[s][t], high[s][t]), scale, sum[s][t]);
    }
  }
}

// Adds the bias, rounds, and stores up to a register of rows of one token.
template <class S>
void store_rows(const Dot& dot, int token, int row, typename S::F sum) {
  const int64_t at = int64_t(dot.y_rows ? dot.y_rows[token] : token) * dot.rows + row;
  const int left = dot.rows - row;
  if (left >= S::kLanes) {
    if (dot.bias) sum = S::add(sum, S::load(dot.bias + row));
    if (dot.y.is_bf16)
      S::store_bf16(static_cast<uint16_t*>(dot.y.data) + at, sum);
    else
      S::store(static_cast<float*>(dot.y.data) + at, sum);
    return;
  }
  float values[S::kLanes];
  uint16_t rounded[S::kLanes];
  S::store(values, sum);
  for (int i = 0; i < left; ++i)
    if (dot.bias) values[i] += dot.bias[row + i];
  S::store_bf16(rounded, S::load(values));
  for (int i = 0; i < left; ++i)
    if (dot.y.is_bf16)
      static_cast<uint16_t*>(dot.y.data)[at + i] = rounded[i];
    else
      static_cast<float*>(dot.y.data)[at + i] = values[i];
}

template <class S, class W, int kStrips, int kTokens>
void tile(const Dot& dot, const Strip* strips, int row, int token, const Next& next) {
  int64_t rows[kTokens];
  for (int t = 0; t < kTokens; ++t) rows[t] = dot.x_rows ? dot.x_rows[token + t] : token + t;
  typename S::F sum[kStrips][kTokens];
  if constexpr (W::kFormat == Format::bf16 || W::kFormat == Format::mxfp4) {
    const float* x[kTokens];
    for (int t = 0; t < kTokens; ++t) x[t] = dot.x.values + rows[t] * dot.x.stride;
    if constexpr (W::kFormat == Format::bf16)
      bf16_tile<S, kStrips, kTokens>(strips, x, (dot.columns + 1) / 2, sum);
    else
      mxfp4_tile<S, kStrips, kTokens>(strips, x, blocks_of(dot.columns), sum);
  } else {
    const int blocks = blocks_of(dot.columns);
    const int64_t at =
        int64_t(token / kTokens) * blocks * kNextBytes;  // asked for by earlier tiles
    int8_tile<S, W, kStrips, kTokens>(strips, dot.x, rows, blocks,
                                      at < next.size ? next.bytes + at : strips[0].values, sum);
  }
  for (int s = 0; s < kStrips; ++s)
    for (int t = 0; t < kTokens; ++t)
      if (row + s * S::kLanes < dot.rows)
        store_rows<S>(dot, token + t, row + s * S::kLanes, sum[s][t]);
}

// All tokens against `kStrips` strips, in tiles of kTokens and one smaller.
template <class S, class W, int kStrips, int kTokens>
void tiles(const Dot& dot, const Strip* strips, int row, int token, const Next& next = {}) {
  for (; token + kTokens <= dot.tokens; token += kTokens)
    tile<S, W, kStrips, kTokens>(dot, strips, row, token, next);
  if constexpr (kTokens > 1)
    if (token < dot.tokens) tiles<S, W, kStrips, kTokens - 1>(dot, strips, row, token, next);
}

// Strips are numbered through the matrix: a group is one (AVX-512) or two (AVX2).
template <class S>
Strip strip_at(const Dot& dot, const GroupLayout& at, int strip) {
  constexpr int kPerGroup = kGroup / S::kLanes;
  const uint8_t* group = dot.matrix + strip / kPerGroup * at.group_bytes;
  const int part = strip % kPerGroup;
  return {group + at.values_at + part * S::kLanes * 4, group + part * at.scale_bytes / kPerGroup};
}

template <class S, class W>
void dot_strips(const Dot& dot, int first, int last) {
  const GroupLayout at(W::kFormat, dot.columns);
  int strip = first;
  if (dot.tokens > S::kTokensOnce)
    for (; strip + S::kStrips <= last; strip += S::kStrips) {
      Strip strips[S::kStrips];
      for (int s = 0; s < S::kStrips; ++s) strips[s] = strip_at<S>(dot, at, strip + s);
      constexpr int kPerGroup = kGroup / S::kLanes;
      const int next_group = (strip + S::kStrips) / kPerGroup;
      const int64_t next_bytes = at.group_bytes * ((S::kStrips + kPerGroup - 1) / kPerGroup);
      tiles<S, W, S::kStrips, S::kTokens>(
          dot, strips, strip * S::kLanes, 0,
          {dot.matrix + next_group * at.group_bytes, strip + S::kStrips < last ? next_bytes : 0});
    }
  for (; strip < last; ++strip) {
    const Strip one = strip_at<S>(dot, at, strip);
    tiles<S, W, 1, S::kTokensOnce>(dot, &one, strip * S::kLanes, 0);
  }
}

template <class S, class W>
void dot(const Dot& dot) {
  constexpr int kPerGroup = kGroup / S::kLanes;
  dot_strips<S, W>(dot, dot.first_group * kPerGroup, dot.last_group * kPerGroup);
}

// Looks up a group's values once and lets all tiles read them from near memory; worth it from about
// two tiles on.
template <class S>
void dot_mxfp4_q8(const Dot& all) {
  if (all.tokens <= S::kTokensOnce) return dot<S, Mxfp4>(all);
  constexpr int kPerGroup = kGroup / S::kLanes;
  const int blocks = blocks_of(all.columns);
  const GroupLayout at(Format::mxfp4_q8, all.columns);
  constexpr int kGroups = 2;  // of the scratch
  for (int group = all.first_group; group < all.last_group; group += kGroups) {
    Strip strips[kGroups * kPerGroup];
    const int count =
        (group + kGroups <= all.last_group ? kGroups : all.last_group - group) * kPerGroup;
    for (int s = 0; s < count; ++s) {
      const Strip packed = strip_at<S>(all, at, group * kPerGroup + s);
      uint8_t* out = all.scratch + s / kPerGroup * int64_t(blocks) * kGroupBlock +
                     s % kPerGroup * S::kLanes * 4;
      strips[s] = {out, packed.scales};
      for (int pair = 0; pair < blocks * 4; ++pair) {
        prefetch<64>(packed.values + pair * int64_t(64) + kStreamAhead);
        typename S::I first, second;
        Mxfp4::pair<S>(packed.values + pair * int64_t(64), first, second);
        S::istore(out + pair * int64_t(128), first);
        S::istore(out + pair * int64_t(128) + 64, second);
      }
    }
    int s = 0;
    for (; s + S::kStrips <= count; s += S::kStrips)
      tiles<S, Mxfp4Expanded, S::kStrips, S::kTokens>(
          all, strips + s, group * kGroup + s * S::kLanes, 0,
          {all.matrix + (group + kGroups) * at.group_bytes,
           group + kGroups < all.last_group ? kGroups * at.group_bytes : 0});
    for (; s < count; ++s)
      tiles<S, Mxfp4Expanded, 1, S::kTokensOnce>(all, strips + s, group * kGroup + s * S::kLanes,
                                                 0);
  }
}

}  // namespace
}  // namespace rose::cpu
