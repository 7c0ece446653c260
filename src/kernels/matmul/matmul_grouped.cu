#include "kernels/matmul/grouped.h"

#include "device/arena.h"
#include "kernels/matmul/grouped.cuh"
#include "kernels/matmul/token_records.cuh"

namespace rose::cuda {

namespace {

// y[token][row] = sum * scale + bias, or that much more.
struct WriteRows {
  void* y;  // [tokens, rows]
  bool y_bf16, add;
  const float* bias;  // [rows] or null

  template <int kSums>
  __device__ __forceinline__ void operator()(const float (&total)[kSums], const RowTerms& terms,
                                             const Tiles& w, const SegmentList& segments,
                                             const Segment& segment, int row_block, uint8_t* staged,
                                             int barrier) const {
    const int first_row = row_block * kTile;
    if (y_bf16) {
      stage_rows(total, terms, staged, barrier);
      const auto row_of = [&](int token) {
        return static_cast<__nv_bfloat16*>(y) + int64_t(segments.slot(segment, token)) * w.rows +
               first_row;
      };
      const int rows_left = w.rows - first_row;
      add ? write_staged<kSums * 2, 64, true>(staged, segment.count, rows_left, row_of)
          : write_staged<kSums * 2, 64>(staged, segment.count, rows_left, row_of);
      return;
    }
    const int thread = threadIdx.x % 128, row = first_row + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int token = i / 4 * 8 + thread % 4 * 2 + i % 2, r = i / 2 % 2;
      if (token < segment.count && row + 8 * r < w.rows) {
        float& to =
            static_cast<float*>(y)[int64_t(segments.slot(segment, token)) * w.rows + row + 8 * r];
        to = (add ? to : 0) + (total[i] * terms.scale[r] + terms.add[r]);
      }
    }
  }
};

template <class Format, int kTokens>
void run(Stream& stream, const Matmul& op) {
  using S = ScheduledShape<Format, kTokens>;
  const int tokens = op.x.dim(0), segments = (tokens + kTokens - 1) / kTokens;
  const Arena::Mark mark = stream.scratch->mark();
  uint8_t* records = take_token_records<S>(stream, segments, op.weight.columns);
  const Tiles w(op.weight);
  const SegmentList list = {.tokens = tokens};
  make_token_records<S>(stream, segments,
                        {.records = records,
                         .x = elements<__nv_bfloat16>(op.x),
                         .columns = w.columns,
                         .stages = (w.units + 1) / 2,
                         .segments = list});
  grouped_product<S>(
      "matmul", stream, segments,
      GroupedProduct<WriteRows>{.w = w,
                                .records = records,
                                .segments = list,
                                .epilogue = {.y = op.y.data,
                                             .y_bf16 = op.y.dtype == DType::bf16,
                                             .add = op.add,
                                             .bias = op.bias ? op.bias.as<float>() : nullptr},
                                .listed_early = true});
  stream.scratch->rewind(mark);  // what follows on the stream runs after this
}

}  // namespace

bool grouped_takes(const Matmul& op) {
  return op.x.dtype == DType::bf16 &&
         (op.weight.format == Format::bf16 || op.weight.format == Format::fp8);
}

void grouped_matmul(Stream& stream, const Matmul& op) {
  // A block reads its weights once for its tokens. Matrices that no cache holds are read once: one wide block.
  const int most = op.weight.rows >= 16384 ? 32 : 192;
  const bool few = op.x.dim(0) <= most, fp8 = op.weight.format == Format::fp8;
  if (fp8)
    few ? run<GroupedFp8, 32>(stream, op) : run<GroupedFp8, 128>(stream, op);
  else
    few ? run<GroupedBf16, 32>(stream, op) : run<GroupedBf16, 64>(stream, op);
}

}  // namespace rose::cuda
