#include "device/arena.h"
#include "kernels/experts/gated.cuh"
#include "kernels/experts/grouped.h"
#include "kernels/matmul/token_records.cuh"

namespace rose::cuda {

namespace {

// a[slot][row / 2] from pairs of rows, gate and up, which lie in lanes g and g + 1: the even lane takes that
// of row g, the odd one that of row g + 8. In shared memory first: [token][32 of them].
struct WriteGated {
  __nv_bfloat16* a;   // [slots, ffn]
  const float* bias;  // [experts, 2 ffn]
  const int* slots;
  float limit, alpha;

  template <int kSums>
  __device__ __forceinline__ void operator()(const float (&total)[kSums], const Tiles& w,
                                             const Segment& segment, int row_block, uint8_t* staged,
                                             int barrier) const {
    const RowTerms t(w, bias, segment.expert, row_block);
    const int thread = threadIdx.x % 128, lane = thread % 32, g = lane / 4, odd = g % 2;
    const int pair = thread / 32 * 8 + (odd ? g + 7 : g) / 2;  // of the 32
    named_barrier_sync(barrier, 128);                          // the tile before has been written
#pragma unroll
    for (int i = 0; i < kSums / 4; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float h0 = rounded<__nv_bfloat16>(total[4 * i + j] * t.scale[0] + t.add[0]);
        const float h1 = rounded<__nv_bfloat16>(total[4 * i + 2 + j] * t.scale[1] + t.add[1]);
        const float theirs = __shfl_xor_sync(~0u, odd ? h0 : h1, 4);
        const float value = gated(odd ? theirs : h0, odd ? h1 : theirs, limit, alpha);
        const int token = 8 * i + lane % 4 * 2 + j;
        const int chunk = pair / 8 ^ token % 4;
        *reinterpret_cast<__nv_bfloat16*>(staged + token * 64 + chunk * 16 + pair % 8 * 2) =
            __float2bfloat16_rn(value);
      }
    named_barrier_sync(barrier, 128);
    const int ffn = w.rows / 2, first = row_block * kTile / 2;
    write_staged<kSums * 2, 32>(staged, segment.count, ffn - first, [&](int token) {
      return a + int64_t(slots[segment.first + token]) * ffn + first;
    });
  }
};

// out[slot][row] = sum * scale + bias.
struct WriteSlots {
  __nv_bfloat16* out;  // [slots, hidden]
  const float* bias;   // [experts, hidden]
  const int* slots;

  template <int kSums>
  __device__ __forceinline__ void operator()(const float (&total)[kSums], const Tiles& w,
                                             const Segment& segment, int row_block, uint8_t* staged,
                                             int barrier) const {
    stage_rows(total, RowTerms(w, bias, segment.expert, row_block), staged, barrier);
    const int first = row_block * kTile;
    write_staged<kSums * 2, 64>(staged, segment.count, w.rows - first, [&](int token) {
      return out + int64_t(slots[segment.first + token]) * w.rows + first;
    });
  }
};

template <class Format, int kTokens>
void run(Stream& stream, const Experts& op, int top_k, int most_segments,
         const SegmentList& segments, const Tensor& out) {
  using Choice = GroupedChoice<Format, kTokens>;
  Arena& scratch = *stream.scratch;
  const Tiles gate_up(op.gate_up), down(op.down);
  const Tensor a = scratch.take(DType::bf16, {op.x.dims[0] * top_k, op.down.columns});
  const int64_t bytes =
      record_bytes<Choice::kForm, kTokens>(most_segments, std::max(gate_up.columns, down.columns));
  uint8_t* records = scratch.take(DType::u8, {bytes}).as<uint8_t>();

  SegmentList of_tokens = segments;
  of_tokens.share = top_k;
  make_token_records<Choice::kForm, kTokens>(stream, most_segments,
                                             {.records = records,
                                              .x = elements<__nv_bfloat16>(op.x),
                                              .columns = gate_up.columns,
                                              .stages = (gate_up.units + 1) / 2,
                                              .segments = of_tokens});
  grouped_product<typename Choice::Shape>(
      "experts gate_up", stream, most_segments,
      GroupedProduct<WriteGated>{.w = gate_up,
                                 .records = records,
                                 .segments = segments,
                                 .epilogue = {.a = elements<__nv_bfloat16>(a),
                                              .bias = op.gate_up_bias.as<float>(),
                                              .slots = segments.slots,
                                              .limit = op.limit,
                                              .alpha = op.alpha}});
  make_token_records<Choice::kForm, kTokens>(stream, most_segments,
                                             {.records = records,
                                              .x = elements<__nv_bfloat16>(a),
                                              .columns = down.columns,
                                              .stages = (down.units + 1) / 2,
                                              .segments = segments});
  grouped_product<typename Choice::Shape>(
      "experts down", stream, most_segments,
      GroupedProduct<WriteSlots>{.w = down,
                                 .records = records,
                                 .segments = segments,
                                 .epilogue = {.out = elements<__nv_bfloat16>(out),
                                              .bias = op.down_bias.as<float>(),
                                              .slots = segments.slots}});
}

}  // namespace

int grouped_tokens(Format format, int slots, int experts) {
  if (format == Format::mxfp4_fp8 && slots <= 8 * experts) return 16;
  return slots <= 32 * experts ? 32 : 128;
}

void grouped_experts(Stream& stream, const Experts& op, int top_k, int length, int most_segments,
                     const SegmentList& segments, const Tensor& out) {
  const bool e4m3 = op.gate_up.format == Format::mxfp4_fp8;
  const auto go = [&](auto with) { with(stream, op, top_k, most_segments, segments, out); };
  if (length == 16)
    go(run<GroupedMxfp4E4m3, 16>);
  else if (length == 32)
    e4m3 ? go(run<GroupedMxfp4E4m3, 32>) : go(run<GroupedMxfp4F16, 32>);
  else
    e4m3 ? go(run<GroupedMxfp4E4m3, 128>) : go(run<GroupedMxfp4F16, 128>);
}

}  // namespace rose::cuda
