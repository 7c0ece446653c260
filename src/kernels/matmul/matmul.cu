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
                                  .bias = op.bias ? op.bias.as<float>() : nullptr,
                                  .expert_of = nullptr,
                                  .share = 1,
                                  .tokens = op.x.dim(0)});
  });
}

// y[token][row] = sum * scale + bias.
struct WriteRows {
  void* y;  // [tokens, rows]
  bool y_bf16;
  const float* bias;  // [rows] or null

  template <int kTiles>
  __device__ void operator()(const float (&sum)[kTiles][4], const Tiles& w,
                             const StreamPlace& place) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = place.row + place.lane / 4 + 8 * r;
      if (row >= w.rows) continue;
      const float scale = scale_of(w, 0, row), add = bias ? bias[row] : 0;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int token = 8 * tile + place.lane % 4 * 2 + i;
          if (token >= place.segment.count) continue;
          const int64_t at = int64_t(place.segment.first + token) * w.rows + row;
          const float value = sum[tile][2 * r + i] * scale + add;
          if (y_bf16)
            static_cast<__nv_bfloat16*>(y)[at] = __float2bfloat16_rn(value);
          else
            static_cast<float*>(y)[at] = value;
        }
    }
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
                                            .bias = op.bias ? op.bias.as<float>() : nullptr}});
}

// The first that takes the problem runs it; `plain` takes all.
struct Variant {
  bool (*takes)(const Matmul&);
  void (*run)(Stream&, const Matmul&);
};

// `kLeast` tokens up to kTokens, of matrices with at least `kRows` rows.
template <class Weights, Format kFormat, int kLeast, int kTokens, int kRows, int kSlabs, int kSplit>
constexpr Variant stream_variant() {
  using Shape = StreamShape<Weights, kTokens, kSlabs, kSplit>;
  return {[](const Matmul& op) {
            return op.x.dtype == DType::bf16 && op.weight.format == kFormat &&
                   op.x.dim(0) >= kLeast && op.x.dim(0) <= kTokens && op.weight.rows >= kRows &&
                   stream_fits<Shape>(op.weight.columns, op.x.dim(0)) &&
                   reinterpret_cast<uintptr_t>(op.x.data) % 16 == 0;
          },
          stream_rows<Shape>};
}

constexpr Variant kVariants[] = {
    // Many rows: whole tiles a block. Few: eight warps share 16 rows, so that every multiprocessor has
    // some; with more tokens 32 rows, since each block has to have the tokens.
    stream_variant<StreamFp8, Format::fp8, 1, 8, 16384, 4, 2>(),
    stream_variant<StreamFp8, Format::fp8, 5, 8, 4096, 2, 4>(),
    stream_variant<StreamFp8, Format::fp8, 1, 8, 1, 1, 8>(),
    stream_variant<StreamFp8, Format::fp8, 9, 16, 16384, 4, 4>(),
    stream_variant<StreamFp8, Format::fp8, 9, 16, 1, 1, 16>(),
    stream_variant<StreamBf16, Format::bf16, 1, 8, 16384, 4, 2>(),
    stream_variant<StreamBf16, Format::bf16, 1, 8, 1, 1, 8>(),
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
