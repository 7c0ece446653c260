// The experts through grouped.cuh, for any of its formats of weights: what becomes of the sums, and the
// order of launches. Instantiated in files of their own: they take long to compile.
#pragma once
#include "kernels/experts/grouped.h"

#include "device/arena.h"
#include "kernels/experts/gated.cuh"
#include "kernels/matmul/grouped.cuh"

namespace rose::cuda {

namespace {

// a[slot][row / 2] from pairs of rows, gate and up, which lie in lanes g and g + 1: the even lane takes that
// of row g, the odd one that of row g + 8. In shared memory first: [token][32 of them].
struct WriteGated {
  __nv_bfloat16* a;   // [slots, ffn]
  const float* bias;  // [experts, 2 ffn]
  float limit, alpha;

  template <int kSums>
  __device__ __forceinline__ void operator()(const float (&total)[kSums], const RowTerms& t,
                                             const Tiles& w, const SegmentList& segments,
                                             const Segment& segment, int row_block, uint8_t* staged,
                                             int barrier) const {
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
      return a + int64_t(segments.slots[segment.first + token]) * ffn + first;
    });
  }
};

// out[slot][row] = sum * scale + bias.
struct WriteSlots {
  __nv_bfloat16* out;  // [slots, hidden]
  const float* bias;   // [experts, hidden]

  template <int kSums>
  __device__ __forceinline__ void operator()(const float (&total)[kSums], const RowTerms& t,
                                             const Tiles& w, const SegmentList& segments,
                                             const Segment& segment, int row_block, uint8_t* staged,
                                             int barrier) const {
    stage_rows(total, t, staged, barrier);
    const int first = row_block * kTile;
    write_staged<kSums * 2, 64>(staged, segment.count, w.rows - first, [&](int token) {
      return out + int64_t(segments.slots[segment.first + token]) * w.rows + first;
    });
  }
};

// --- few slots: the list of segments and the records of x in one launch ------------------------------

constexpr int kFew = 256;
constexpr int kFewTokens = 16;  // of a segment

struct FewParams {
  int* sorted;  // [slots]
  Segment* segments;
  int* segment_count;
  uint8_t* records;
  const int* experts;      // [slots]
  const __nv_bfloat16* x;  // [tokens, columns]
  int slots, top_k, columns, stages;
};

// Every block sorts all slots for itself, in the order of slots so that all agree, and lays out its stage of
// each; the first one writes the list. Places without a token are left as they are: a column of a product
// depends on its own token alone.
//   grid   stages
//   needs  at most kFew slots and kFew experts
__global__ void __launch_bounds__(kFew) few_kernel(const __grid_constant__ FewParams p) {
  constexpr int kRecordBytes = record_bytes(TokenForm::e4m3, kFewTokens);
  __shared__ int expert_of[kFew], count[kFew], first_slot[kFew], first_segment[kFew];
  __shared__ int place[kFew], warp_sums[2][kFew / kWarp];
  const int t = threadIdx.x, warp = t / kWarp, lane = t % kWarp;
  count[t] = 0;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int mine = t < p.slots ? p.experts[t] : -1;
  expert_of[t] = mine;
  __syncthreads();
  int rank = 0;  // among the slots of the same expert
  if (mine >= 0) {
    atomicAdd(&count[mine], 1);
    for (int other = 0; other < t; ++other) rank += expert_of[other] == mine;
  }
  __syncthreads();

  const int slots = count[t], segments = (slots + kFewTokens - 1) / kFewTokens;
  int slot_sum = slots, segment_sum = segments;
#pragma unroll
  for (int other = 1; other < kWarp; other *= 2) {
    const int a = __shfl_up_sync(~0u, slot_sum, other);
    const int b = __shfl_up_sync(~0u, segment_sum, other);
    if (lane >= other) slot_sum += a, segment_sum += b;
  }
  if (lane == kWarp - 1) warp_sums[0][warp] = slot_sum, warp_sums[1][warp] = segment_sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) slot_sum += warp_sums[0][w], segment_sum += warp_sums[1][w];
  first_slot[t] = slot_sum - slots;
  first_segment[t] = segment_sum - segments;
  __syncthreads();
  if (mine >= 0) place[t] = first_segment[mine] * kFewTokens + rank;
  if (blockIdx.x == 0) {
    for (int i = 0; i < segments; ++i)
      p.segments[first_segment[t] + i] = {t, first_slot[t] + i * kFewTokens,
                                          min(kFewTokens, slots - i * kFewTokens)};
    if (mine >= 0) p.sorted[first_slot[mine] + rank] = t;
    if (t == kFew - 1) *p.segment_count = segment_sum;
  }
  __syncthreads();

  const int column = blockIdx.x * 2 * kTile + lane * 4;
  for (int slot = warp; slot < p.slots; slot += kFew / kWarp)
    store_token<TokenForm::e4m3, kFewTokens>(
        p.records + (int64_t(place[slot] / kFewTokens) * p.stages + blockIdx.x) * kRecordBytes,
        place[slot] % kFewTokens,
        load_four(p.x + int64_t(slot / p.top_k) * p.columns, column, p.columns));
}

// Both products, with what lies between them in `a`.
template <class Format, int kTokens>
void run_grouped_experts(Stream& stream, const Experts& op, int most_segments,
                         SegmentList segments) {
  using S = ScheduledShape<Format, kTokens>;
  const Tiles gate_up(op.gate_up), down(op.down);
  const int top_k = op.experts.dim(1), slots = op.x.dim(0) * top_k;
  const Tensor a = stream.scratch->take(DType::bf16, {slots, op.down.columns});

  uint8_t* records = nullptr;
  if constexpr (!S::kResident)
    records = take_token_records<S>(stream, most_segments, std::max(gate_up.columns, down.columns));
  const auto lay_out = [&](const Tensor& x, int columns, int share) {
    segments.share = share;
    make_token_records<S>(stream, most_segments,
                          {.records = records,
                           .x = elements<__nv_bfloat16>(x),
                           .columns = columns,
                           .stages = (columns + 2 * kTile - 1) / (2 * kTile),
                           .segments = segments});
  };
  const auto product = [&](const char* name, const Tiles& w, const Tensor& x, int share,
                           auto epilogue, bool listed_early) {
    const GroupedProduct<decltype(epilogue)> product = {.w = w,
                                                        .records = records,
                                                        .segments = segments,
                                                        .rows = {.x = elements<__nv_bfloat16>(x),
                                                                 .experts = op.experts.as<int>(),
                                                                 .slots = slots,
                                                                 .share = share},
                                                        .epilogue = epilogue,
                                                        .listed_early = listed_early};
    if constexpr (S::kResident) {
      using Split = SplitShape<Format>;
      if (most_segments * w.row_blocks <= multiprocessors() * Split::kBlocks)
        return grouped_product<Split>(name, stream, most_segments, product);
    }
    grouped_product<S>(name, stream, most_segments, product);
  };
  if constexpr (!S::kResident) {
    if (few_slots(kTokens, slots, gate_up.experts))  // the list is only allocated so far
      launch<few_kernel>("experts list",
                         {.blocks = dim3(unsigned((gate_up.units + 1) / 2)), .threads = kFew},
                         stream,
                         FewParams{.sorted = const_cast<int*>(segments.slots),
                                   .segments = const_cast<Segment*>(segments.list),
                                   .segment_count = const_cast<int*>(segments.length),
                                   .records = records,
                                   .experts = op.experts.as<int>(),
                                   .x = elements<__nv_bfloat16>(op.x),
                                   .slots = slots,
                                   .top_k = top_k,
                                   .columns = gate_up.columns,
                                   .stages = (gate_up.units + 1) / 2});
    else
      lay_out(op.x, gate_up.columns, top_k);
  }
  product("experts gate_up", gate_up, op.x, top_k,
          WriteGated{.a = elements<__nv_bfloat16>(a),
                     .bias = op.gate_up_bias.as<float>(),
                     .limit = op.limit,
                     .alpha = op.alpha},
          false);
  if constexpr (!S::kResident) lay_out(a, down.columns, 1);
  // The list was complete before the gate's kernel ran, so before what follows that begins.
  product("experts down", down, a, 1,
          WriteSlots{.out = elements<__nv_bfloat16>(op.y), .bias = op.down_bias.as<float>()}, true);
}

}  // namespace

}  // namespace rose::cuda
