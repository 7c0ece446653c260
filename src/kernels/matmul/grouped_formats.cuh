// How a 64 x 64 tile of weights reaches the tensor cores, and which tokens it meets there: a format is
// what grouped.cuh is told of it.
#pragma once
#include "device/wgmma.cuh"
#include "kernels/pack/tiles.cuh"

namespace rose::cuda {

// Tokens in shared memory (token_records.cuh).
enum class TokenForm { e4m3, bf16, f16 };
constexpr int unit_bytes(TokenForm form) {
  return form == TokenForm::e4m3 ? 64 : 128;
}  // 64 columns
constexpr bool is_scaled(TokenForm form) { return form == TokenForm::e4m3; }
constexpr int record_bytes(TokenForm form, int tokens) {  // of a stage: two units, and scales
  const int scales = is_scaled(form) ? (tokens < 16 ? 16 : tokens) : 0;  // by 16: see scale_slot
  return tokens * 2 * unit_bytes(form) + scales * 4;
}

// What a thread reads of an MXFP4 tile before it expands it.
struct PackedMxfp4 {
  uint4 codes;         // of the four words
  uint32_t exponents;  // a byte each

  static __device__ __forceinline__ PackedMxfp4 load(const uint8_t* tile, int thread) {
    const int row_pair = thread / 32 * 8 + thread % 32 / 4;
    return {*reinterpret_cast<const uint4*>(tile + 16 * thread),
            *reinterpret_cast<const uint32_t*>(tile + kCodeBytes + 4 * row_pair)};
  }
  template <int kWord>
  __device__ __forceinline__ uint32_t exponent() const {
    return permute(exponents, 0, 0x4440 + kWord);
  }
};

// Nothing, where the tensor core reads the weights from shared memory itself.
struct PackedNothing {
  static __device__ PackedNothing load(const uint8_t*, int) { return {}; }
};

struct GroupedMxfp4E4m3 {
  using Packed = PackedMxfp4;
  static constexpr int kTileBytes = tile_bytes(Format::mxfp4_fp8);
  static constexpr TokenForm kForm = TokenForm::e4m3;
  static constexpr int kFragment = 8;  // registers of A per unit and thread

  // Eight codes to two registers of four E4M3 each: as in stream.cuh, but the table holds whole E4M3
  // numbers (eight to a binade), b = 8 being the lowest that has all of them.
  static __device__ __forceinline__ void expand(uint32_t codes, uint32_t b, uint32_t& x,
                                                uint32_t& y) {
    const uint32_t low = b * 0x08080800u + (0x0c080000u - 7 * 0x08080800u);
    const uint32_t high = b * 0x08080808u + (0x1c181410u - 7 * 0x08080808u);
    const uint32_t magnitudes = codes & 0x77777777u;
    x = and_or(codes, 0x80808080u, permute(low, high, magnitudes));
    y = and_or(codes << 4, 0x80808080u, permute(low, high, magnitudes >> 16));
  }
  static __device__ __forceinline__ void expand(uint32_t* a, const Packed& packed) {
    expand(packed.codes.x, packed.exponent<0>(), a[0], a[2]);
    expand(packed.codes.y, packed.exponent<1>(), a[1], a[3]);
    expand(packed.codes.z, packed.exponent<2>(), a[4], a[6]);
    expand(packed.codes.w, packed.exponent<3>(), a[5], a[7]);
  }
  template <int kTokens>
  static __device__ __forceinline__ void multiply(float (&sum)[kTokens / 2], const uint32_t* a,
                                                  const uint8_t*, uint64_t tokens, bool add) {
    Wgmma<kTokens>::e4m3(sum, a, tokens, add);
    Wgmma<kTokens>::e4m3(sum, a + 4, tokens + (32 >> 4), true);
  }
};

// The same bytes as f16, for f16 tokens whose columns are permuted to match (token_records.cuh).
struct GroupedMxfp4F16 {
  using Packed = PackedMxfp4;
  static constexpr int kTileBytes = tile_bytes(Format::mxfp4);
  static constexpr TokenForm kForm = TokenForm::f16;
  static constexpr int kFragment = 16;

  static __device__ __forceinline__ void expand(uint32_t codes, uint32_t b, uint32_t* a) {
    const uint32_t low = b * 0x04040400u + 0x0a080400u;
    const uint32_t high = b * 0x04040404u + 0x12100e0cu;
    const uint32_t magnitudes = codes & 0x77777777u;
    const uint32_t x = and_or(codes, 0x80808080u, permute(low, high, magnitudes));
    const uint32_t y = and_or(codes << 4, 0x80808080u, permute(low, high, magnitudes >> 16));
    a[0] = permute(x, 0, 0x1404), a[2] = permute(x, 0, 0x3424);
    a[4] = permute(y, 0, 0x1404), a[6] = permute(y, 0, 0x3424);
  }
  static __device__ __forceinline__ void expand(uint32_t* a, const Packed& packed) {
    expand(packed.codes.x, packed.exponent<0>(), a);
    expand(packed.codes.y, packed.exponent<1>(), a + 1);
    expand(packed.codes.z, packed.exponent<2>(), a + 8);
    expand(packed.codes.w, packed.exponent<3>(), a + 9);
  }
  template <int kTokens>
  static __device__ __forceinline__ void multiply(float (&sum)[kTokens / 2], const uint32_t* a,
                                                  const uint8_t*, uint64_t tokens, bool add) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      Wgmma<kTokens>::f16(sum, a + 4 * k, tokens + k * (32 >> 4), add || k > 0);
  }
};

struct GroupedFp8 {
  using Packed = PackedNothing;
  static constexpr int kTileBytes = tile_bytes(Format::fp8);
  static constexpr TokenForm kForm = TokenForm::e4m3;
  static constexpr int kFragment = 1;  // unused

  static __device__ __forceinline__ void expand(uint32_t*, const Packed&) {}
  template <int kTokens>
  static __device__ __forceinline__ void multiply(float (&sum)[kTokens / 2], const uint32_t*,
                                                  const uint8_t* tile, uint64_t tokens, bool add) {
    const uint64_t weights = operand<64>(shared_address(tile));
    Wgmma<kTokens>::e4m3_shared(sum, weights, tokens, add);
    Wgmma<kTokens>::e4m3_shared(sum, weights + (32 >> 4), tokens + (32 >> 4), true);
  }
};

// The same with scales of blocks, which the promotion of each stage multiplies in.
struct GroupedFp8Block : GroupedFp8 {};

struct GroupedBf16 {
  using Packed = PackedNothing;
  static constexpr int kTileBytes = tile_bytes(Format::bf16);
  static constexpr TokenForm kForm = TokenForm::bf16;
  static constexpr int kFragment = 1;

  static __device__ __forceinline__ void expand(uint32_t*, const Packed&) {}
  template <int kTokens>
  static __device__ __forceinline__ void multiply(float (&sum)[kTokens / 2], const uint32_t*,
                                                  const uint8_t* tile, uint64_t tokens, bool add) {
    const uint64_t weights = operand<128>(shared_address(tile));
#pragma unroll
    for (int k = 0; k < 4; ++k)
      Wgmma<kTokens>::bf16_shared(sum, weights + k * (32 >> 4), tokens + k * (32 >> 4),
                                  add || k > 0);
  }
};

}  // namespace rose::cuda
