#include "kernels/matmul/matmul.h"

#include <algorithm>

#include "kernels/cuda.h"
#include "kernels/matmul/grouped.h"
#include "kernels/matmul/plain.cuh"
#include "kernels/matmul/stream.cuh"

namespace rose::cuda {

namespace {

void plain(Stream& stream, const Matmul& op) {
  with_type_of(op.x, "matmul", [&]<class T>(T) {
    plain_product("matmul", stream,
                  PlainProduct<T>{.w = Tiles(op.weight),
                                  .x = elements<T>(op.x),
                                  .y = op.y.data,
                                  .y_bf16 = op.y.dtype == DType::bf16,
                                  .add = op.add,
                                  .bias = op.bias ? op.bias.as<float>() : nullptr,
                                  .expert_of = nullptr,
                                  .share = 1,
                                  .tokens = op.x.dim(0)});
  });
}

// y[token][row] = sum * scale + bias, or that much more.
struct WriteRows {
  void* y;  // [tokens, rows]
  bool y_bf16, add;
  const float* bias;  // [rows] or null

  template <int kTiles>
  struct Terms {
    StreamTerms of;
    float before[kTiles][4];  // of y, like the sums
  };
  template <int kTiles>
  __device__ __forceinline__ Terms<kTiles> terms(const Tiles& w, const StreamPlace& place) const {
    Terms<kTiles> terms = {StreamTerms(w, bias, 0, place.row + place.lane / 4), {}};
    if (add)
#pragma unroll
      for (int i = 0; i < kTiles * 4; ++i) {
        const int64_t at = at_of(w, place, i);
        if (at >= 0)
          terms.before[i / 4][i % 4] =
              y_bf16 ? to_float(static_cast<__nv_bfloat16*>(y)[at]) : static_cast<float*>(y)[at];
      }
    return terms;
  }

  template <int kTiles>
  __device__ __forceinline__ void operator()(const float (&sum)[kTiles][4],
                                             const Terms<kTiles>& terms, const Tiles& w,
                                             const StreamPlace& place) const {
#pragma unroll
    for (int i = 0; i < kTiles * 4; ++i) {
      const int64_t at = at_of(w, place, i);
      if (at < 0) continue;
      const int r = i / 2 % 2;
      const float value = sum[i / 4][i % 4] * terms.of.scale[r] + terms.of.bias[r];
      const float before = terms.before[i / 4][i % 4];
      if (y_bf16)
        static_cast<__nv_bfloat16*>(y)[at] =
            __float2bfloat16_rn(add ? before + rounded<__nv_bfloat16>(value) : value);
      else
        static_cast<float*>(y)[at] = add ? before + value : value;
    }
  }

 private:
  // Where in y sum i is, or -1.
  static __device__ __forceinline__ int64_t at_of(const Tiles& w, const StreamPlace& place, int i) {
    const int row = place.row + place.lane / 4 + i / 2 % 2 * 8;
    const int token = i / 4 * 8 + place.lane % 4 * 2 + i % 2;
    if (row >= w.rows || token >= place.segment.count) return -1;
    return int64_t(place.segment.first + token) * w.rows + row;
  }
};

template <class S>
void stream_rows(Stream& stream, const Matmul& op) {
  const int tokens = op.x.dim(0);
  stream_product<S>(
      "matmul", stream, (tokens + S::kTokens - 1) / S::kTokens, tokens,
      StreamProduct<WriteRows>{.w = Tiles(op.weight),
                               .x = static_cast<const uint8_t*>(op.x.data),
                               .segments = {.tokens = tokens},
                               .epilogue = {.y = op.y.data,
                                            .y_bf16 = op.y.dtype == DType::bf16,
                                            .add = op.add,
                                            .bias = op.bias ? op.bias.as<float>() : nullptr}});
}

// The first that takes the problem runs it; `plain` takes all.
struct Variant {
  bool (*takes)(const Matmul&);
  void (*run)(Stream&, const Matmul&);
};

// `kLeast` tokens up to kTokens, of matrices with at least `kRows` rows.
template <Format kFormat, int kLeast, int kRows, class Shape>
constexpr Variant stream_variant() {
  return {[](const Matmul& op) {
            return op.x.dtype == DType::bf16 && op.weight.format == kFormat &&
                   op.x.dim(0) >= kLeast && op.x.dim(0) <= Shape::kTokens &&
                   op.weight.rows >= kRows && stream_fits<Shape>(op.weight.columns, op.x.dim(0)) &&
                   reinterpret_cast<uintptr_t>(op.x.data) % 16 == 0;
          },
          stream_rows<Shape>};
}

constexpr Variant kVariants[] = {
    // Many rows: whole tiles a block. Few: eight warps share 16 rows, so that every multiprocessor has
    // some; with more tokens 32 rows, since each block has to have the tokens.
    stream_variant<Format::fp8, 1, 16384, StreamShape<StreamFp8, 8, 4, 2>>(),
    stream_variant<Format::fp8, 5, 4096, StreamShape<StreamFp8, 8, 2, 4>>(),
    stream_variant<Format::fp8, 1, 1, StreamShape<StreamFp8, 8, 1, 8>>(),
    stream_variant<Format::fp8, 9, 16384, StreamShape<StreamFp8, 16, 4, 4>>(),
    stream_variant<Format::fp8, 9, 1, StreamShape<StreamFp8, 16, 1, 16>>(),
    stream_variant<Format::bf16, 1, 16384, StreamShape<StreamBf16, 8, 4, 2>>(),
    stream_variant<Format::bf16, 1, 1, StreamShape<StreamBf16, 8, 1, 8>>(),
    {[](const Matmul& op) { return op.x.dim(0) > 4 && grouped_takes(op); }, grouped_matmul},
    {[](const Matmul&) { return true; }, plain},
};

}  // namespace

void matmul(Stream& stream, const Matmul& op) {
  Dim tokens("tokens"), rows("rows", op.weight.rows), columns("columns", op.weight.columns);
  shape_check("matmul", op.x, "x", {&tokens, &columns});
  shape_check("matmul", op.y, "y", {&tokens, &rows});
  if (op.bias) shape_check("matmul", op.bias, "bias", {&rows});
  ROSE_CHECK(keeps(op.weight.format), "matmul: %s is no format of this backend",
             name_of(op.weight.format));
  if (tokens == 0) return;
  for (const Variant& variant : kVariants)
    if (variant.takes(op)) return variant.run(stream, op);
}

}  // namespace rose::cuda
