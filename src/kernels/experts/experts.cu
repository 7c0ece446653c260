#include "kernels/experts/experts.h"

#include <cuda_fp16.h>

#include <algorithm>

#include "device/arena.h"
#include "kernels/cuda.h"
#include "kernels/experts/gated.cuh"
#include "kernels/experts/grouped.h"
#include "kernels/matmul/plain.cuh"
#include "kernels/matmul/stream.cuh"

namespace rose::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kMaxExperts = 1024;

// --- who goes where --------------------------------------------------------------------

struct ListParams {
  int* sorted;        // [slots]  slot = token * top_k + choice, by expert
  Segment* segments;  // of at most `length` slots
  int* segment_count;
  const int* experts;  // [slots]
  int slots, length;
  uint16_t* x_f16;         // [tokens, hidden] in the order of stream_mxfp4_place, or null
  const __nv_bfloat16* x;  // [tokens, hidden]
  int hidden;
};

// The first block: counting sort of the slots by expert, and the list of segments, expert by expert. Each of the
// others: a token as f16, where the kernels to come want it so.
//   grid   1 + tokens blocks of kMaxExperts threads
__global__ void __launch_bounds__(kMaxExperts) list_kernel(const __grid_constant__ ListParams p) {
  __shared__ int count[kMaxExperts], next[kMaxExperts], warp_sums[2][kMaxExperts / kWarp];
  const int expert = threadIdx.x, lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  count[expert] = 0;
  __syncthreads();
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (blockIdx.x > 0) {
    const int64_t row = int64_t(blockIdx.x - 1) * p.hidden;
    for (int h = threadIdx.x * 4; h < p.hidden; h += kMaxExperts * 4) {
      const uint2 x = *reinterpret_cast<const uint2*>(p.x + row + h);
      *reinterpret_cast<uint2*>(p.x_f16 + row + stream_mxfp4_place(h)) =
          make_uint2(bf16_to_f16(x.x), bf16_to_f16(x.y));
    }
    return;
  }
  for (int slot = threadIdx.x; slot < p.slots; slot += kMaxExperts)
    atomicAdd(&count[p.experts[slot]], 1);
  __syncthreads();

  // Two running sums over the experts: of slots and of segments.
  const int slots = count[expert], segments = (slots + p.length - 1) / p.length;
  int slot_sum = slots, segment_sum = segments;
#pragma unroll
  for (int other = 1; other < kWarp; other *= 2) {
    const int a = __shfl_up_sync(~0u, slot_sum, other);
    const int b = __shfl_up_sync(~0u, segment_sum, other);
    if (lane >= other) slot_sum += a, segment_sum += b;
  }
  if (lane == kWarp - 1) warp_sums[0][warp] = slot_sum, warp_sums[1][warp] = segment_sum;
  __syncthreads();
  if (warp < 2) {
    int sum = warp_sums[warp][lane];
#pragma unroll
    for (int other = 1; other < kWarp; other *= 2) {
      const int a = __shfl_up_sync(~0u, sum, other);
      if (lane >= other) sum += a;
    }
    warp_sums[warp][lane] = sum;
  }
  __syncthreads();
  if (warp > 0) slot_sum += warp_sums[0][warp - 1], segment_sum += warp_sums[1][warp - 1];
  const int first = slot_sum - slots;
  next[expert] = first;
  for (int i = 0; i < segments; ++i)
    p.segments[segment_sum - segments + i] = {expert, first + i * p.length,
                                              min(p.length, slots - i * p.length)};
  if (expert == kMaxExperts - 1) *p.segment_count = segment_sum;
  __syncthreads();
  // The order inside an expert is left to chance: no slot's result depends on its neighbours.
  for (int slot = threadIdx.x; slot < p.slots; slot += kMaxExperts)
    p.sorted[atomicAdd(&next[p.experts[slot]], 1)] = slot;
}

// --- gate --------------------------------------------------------------------

template <class T>
struct GateParams {
  T* a;        // [slots, ffn]
  const T* h;  // [slots, 2 ffn]
  int64_t count;
  float limit, alpha;
};

template <class T>
__global__ void __launch_bounds__(kThreads) gate_kernel(const __grid_constant__ GateParams<T> p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i < p.count)
    p.a[i] = from_float<T>(gated(to_float(p.h[2 * i]), to_float(p.h[2 * i + 1]), p.limit, p.alpha));
}

// --- variants ------------------------------------------------------------------------------

using Sizes = ExpertsSizes;

void plain(Stream& stream, const Experts& op, const Sizes& size) {
  Arena& scratch = *stream.scratch;
  const Tensor h = scratch.take(op.x.dtype, {size.slots, 2 * size.ffn});
  const Tensor a = scratch.take(op.x.dtype, {size.slots, size.ffn});
  with_type_of(op.x, "experts", [&]<class T>(T) {
    plain_product("experts gate_up", stream,
                  PlainProduct<T>{.w = Tiles(op.gate_up),
                                  .x = elements<T>(op.x),
                                  .y = h.data,
                                  .y_bf16 = h.dtype == DType::bf16,
                                  .add = false,
                                  .bias = op.gate_up_bias.as<float>(),
                                  .expert_of = op.experts.as<int>(),
                                  .share = size.top_k,
                                  .tokens = size.slots});
    const int64_t count = int64_t(size.slots) * size.ffn;
    launch<gate_kernel<T>>(
        "experts gate",
        {.blocks = dim3(unsigned((count + kThreads - 1) / kThreads)), .threads = kThreads}, stream,
        GateParams<T>{.a = elements<T>(a),
                      .h = elements<T>(h),
                      .count = count,
                      .limit = op.limit,
                      .alpha = op.alpha});
    plain_product("experts down", stream,
                  PlainProduct<T>{.w = Tiles(op.down),
                                  .x = elements<T>(a),
                                  .y = op.y.data,
                                  .y_bf16 = op.y.dtype == DType::bf16,
                                  .add = false,
                                  .bias = op.down_bias.as<float>(),
                                  .expert_of = op.experts.as<int>(),
                                  .share = 1,
                                  .tokens = size.slots});
  });
}

// a[slot][row / 2] from pairs of rows, gate and up. A pair is in lanes g and g + 1: the even lane takes
// that of row g, the odd one that of row g + 8.
struct WriteGated {
  uint16_t* a;        // [slots, ffn]  f16, in the order of stream_mxfp4_place
  const float* bias;  // [experts, 2 ffn]
  const int* slots;
  float limit, alpha;

  template <int kTiles>
  __device__ StreamTerms terms(const Tiles& w, const StreamPlace& place) const {
    return {w, bias, place.segment.expert, place.row + place.lane / 4};
  }
  template <int kTiles>
  __device__ void operator()(const float (&sum)[kTiles][4], const StreamTerms& t, const Tiles& w,
                             const StreamPlace& place) const {
    const int g = place.lane / 4, odd = g % 2;
    const int pair = (place.row + (odd ? g + 7 : g)) / 2;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float h0 = rounded<__nv_bfloat16>(sum[tile][i] * t.scale[0] + t.bias[0]);
        const float h1 = rounded<__nv_bfloat16>(sum[tile][2 + i] * t.scale[1] + t.bias[1]);
        const float theirs = __shfl_xor_sync(~0u, odd ? h0 : h1, 4);
        const float gate = odd ? theirs : h0, up = odd ? h1 : theirs;
        const int token = 8 * tile + place.lane % 4 * 2 + i;
        if (token < place.segment.count && 2 * pair < w.rows)
          a[int64_t(slots[place.segment.first + token]) * (w.rows / 2) + stream_mxfp4_place(pair)] =
              __half_as_ushort(
                  __float2half_rn(rounded<__nv_bfloat16>(gated(gate, up, limit, alpha))));
      }
  }
};

// out[slot][row] = sum * scale + bias.
struct WriteSlots {
  __nv_bfloat16* out;  // [slots, hidden]
  const float* bias;   // [experts, hidden]
  const int* slots;

  template <int kTiles>
  __device__ StreamTerms terms(const Tiles& w, const StreamPlace& place) const {
    return {w, bias, place.segment.expert, place.row + place.lane / 4};
  }
  template <int kTiles>
  __device__ void operator()(const float (&sum)[kTiles][4], const StreamTerms& t, const Tiles& w,
                             const StreamPlace& place) const {
#pragma unroll
    for (int i = 0; i < kTiles * 4; ++i) {
      const int r = i / 2 % 2, row = place.row + place.lane / 4 + 8 * r;
      const int token = i / 4 * 8 + place.lane % 4 * 2 + i % 2;
      if (row < w.rows && token < place.segment.count)
        out[int64_t(slots[place.segment.first + token]) * w.rows + row] =
            __float2bfloat16_rn(sum[i / 4][i % 4] * t.scale[r] + t.bias[r]);
    }
  }
};

// Sorts the slots by expert and cuts them into segments of at most `length`.
SegmentList list_segments(Stream& stream, const Experts& op, const Sizes& size, int length,
                          int most_segments, uint16_t* x_f16 = nullptr, bool fill = true) {
  Arena& scratch = *stream.scratch;
  const Tensor sorted = scratch.take(DType::i32, {size.slots});
  const Tensor segments = scratch.take(DType::i32, {most_segments, 3});
  const Tensor count = scratch.take(DType::i32, {1});
  if (fill)
    launch<list_kernel>("experts list",
                        {.blocks = dim3(x_f16 ? 1 + size.tokens : 1), .threads = kMaxExperts},
                        stream,
                        ListParams{.sorted = sorted.as<int>(),
                                   .segments = reinterpret_cast<Segment*>(segments.data),
                                   .segment_count = count.as<int>(),
                                   .experts = op.experts.as<int>(),
                                   .slots = size.slots,
                                   .length = length,
                                   .x_f16 = x_f16,
                                   .x = x_f16 ? elements<__nv_bfloat16>(op.x) : nullptr,
                                   .hidden = size.hidden});
  return {.list = reinterpret_cast<const Segment*>(segments.data),
          .length = count.as<int>(),
          .slots = sorted.as<int>(),
          .share = 1};
}

// An expert with few tokens has one segment, each further one is full.
int most_segments(const Sizes& size, int length) {
  return std::min(size.slots, size.experts) + size.slots / length;
}

template <class S>
void stream(Stream& stream, const Experts& op, const Sizes& size) {
  Arena& scratch = *stream.scratch;
  const int most = most_segments(size, S::kTokens);
  uint16_t* x = static_cast<uint16_t*>(scratch.take(DType::bf16, {size.tokens, size.hidden}).data);
  uint16_t* a = static_cast<uint16_t*>(scratch.take(DType::bf16, {size.slots, size.ffn}).data);
  SegmentList segments = list_segments(stream, op, size, S::kTokens, most, x);
  segments.share = size.top_k;
  stream_product<S>("experts gate_up", stream, most, size.tokens,
                    StreamProduct<WriteGated>{.w = Tiles(op.gate_up),
                                              .x = reinterpret_cast<const uint8_t*>(x),
                                              .segments = segments,
                                              .epilogue = {.a = a,
                                                           .bias = op.gate_up_bias.as<float>(),
                                                           .slots = segments.slots,
                                                           .limit = op.limit,
                                                           .alpha = op.alpha}});
  segments.share = 1;
  stream_product<S>("experts down", stream, most, size.tokens,
                    StreamProduct<WriteSlots>{.w = Tiles(op.down),
                                              .x = reinterpret_cast<const uint8_t*>(a),
                                              .segments = segments,
                                              .epilogue = {.out = elements<__nv_bfloat16>(op.y),
                                                           .bias = op.down_bias.as<float>(),
                                                           .slots = segments.slots}});
}

void grouped(Stream& stream, const Experts& op, const Sizes& size) {
  const int length = grouped_tokens(op), most = most_segments(size, length);
  const bool few = few_slots(length, size.slots, size.experts);  // then the list is made there
  grouped_experts(
      stream, op, length, most,
      length == 8 ? SegmentList{} : list_segments(stream, op, size, length, most, nullptr, !few));
}

bool is_grouped(const Experts& op, std::initializer_list<Format> formats) {
  return op.x.dtype == DType::bf16 && op.down.format == op.gate_up.format &&
         op.gate_up.experts <= kMaxExperts &&
         std::find(formats.begin(), formats.end(), op.gate_up.format) != formats.end();
}

template <class S>
bool streams(const Experts& op, const Sizes& size) {
  return is_grouped(op, {Format::mxfp4}) && stream_fits<S>(op.gate_up.columns, size.tokens) &&
         stream_fits<S>(op.down.columns, size.tokens);
}

using Stream8 = StreamShape<StreamMxfp4, 8, 4, 2>;
using Stream16 = StreamShape<StreamMxfp4, 16, 4, 4>;

// The first that takes the problem runs it; `plain` takes all.
struct Variant {
  bool (*takes)(const Experts&, const Sizes&);
  void (*run)(Stream&, const Experts&, const Sizes&);
};

constexpr Variant kVariants[] = {
    // E4M3 takes half the instructions that f16 takes to expand a weight.
    {[](const Experts& op, const Sizes&) {
       return is_grouped(op, {Format::mxfp4_fp8, Format::fp8_block});
     },
     grouped},
    // Few experts get more tokens than fit.
    {[](const Experts& op, const Sizes& size) {
       return size.slots <= 5 * size.experts && streams<Stream8>(op, size);
     },
     stream<Stream8>},
    {[](const Experts& op, const Sizes& size) {
       return size.slots <= 10 * size.experts && streams<Stream16>(op, size);
     },
     stream<Stream16>},
    {[](const Experts& op, const Sizes&) { return is_grouped(op, {Format::mxfp4}); }, grouped},
    {[](const Experts&, const Sizes&) { return true; }, plain},
};

}  // namespace

void experts(Stream& stream, const Experts& op) {
  const Sizes size = sizes_of(op);
  ROSE_CHECK(keeps(op.gate_up.format) && keeps(op.down.format),
             "experts: %s is no format of this backend", name_of(op.gate_up.format));
  if (size.tokens == 0) return;

  const Arena::Mark mark = stream.scratch->mark();
  for (const Variant& variant : kVariants)
    if (variant.takes(op, size)) {
      variant.run(stream, op, size);
      break;
    }
  stream.scratch->rewind(mark);  // what follows on the stream runs after this
}

}  // namespace rose::cuda
