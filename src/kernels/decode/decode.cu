#include "kernels/decode/decode.h"

#include <algorithm>

#include "device/arena.h"
#include "device/launch.cuh"
#include "kernels/cuda.h"
#include "kernels/decode/worker.cuh"
#include "kernels/route/choose.cuh"

namespace rose::cuda {

namespace {

//   grid    one block a multiprocessor: they wait for each other
//   block   the workers' warps, one for each of their warpgroups that fetches weights, the conductor
//   shared  the rings of the warpgroups, Shared
__global__ void __launch_bounds__(kThreads, 1)
    decode_kernel(const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(1024) uint8_t memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory + kWarpgroups * kRingBytes);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (threadIdx.x < kProducts * kWorkerWarps) s.plan.make(p, threadIdx.x);
  if (threadIdx.x == kWorkers) {
    for (int w = 0; w < kWarpgroups; ++w)
      for (int i = 0; i < kStages; ++i)
        barrier_init(&s.full[w][i], 1), barrier_init(&s.empty[w][i], 4);
    barrier_init(&s.routed, 1);
    barrier_init_done();
  }
  __syncthreads();

  const bool works = warp < kWorkerWarps;
  const int warpgroup = __shfl_sync(~0u, works ? warp / 4 : warp - kWorkerWarps, 0);
  if (warp < kWorkerWarps + kWarpgroups) {
    const WeightRing ring = {.stages = memory + warpgroup * kRingBytes,
                             .full = s.full[warpgroup],
                             .empty = s.empty[warpgroup]};
    if (works) {
      Worker worker = {.p = p, .s = s, .weights = {.p = p, .plan = s.plan, .ring = ring}};
      worker.run();
    } else {
      fetch_weights(p, s.plan, s.chosen, &s.routed, ring, warpgroup);
    }
    return;
  }

  Barrier barrier = {.counters = &grid_counters};
  wait_for_previous_kernel();
  for (int layer = 0; layer < p.layers; ++layer) {
    for (int i = 0; i < 3; ++i) {  // qkv, attention, out
      barrier.arrive_and_wait();
      barrier.let_workers_go();
    }
    barrier.arrive_and_wait();  // route
    const Choice choice = choose_experts<Bf16>(p.logits, p.experts, p.top_k);
    if (lane < p.top_k) {
      s.chosen[lane] = choice.expert, s.weights[lane] = choice.weight;
      if (layer + 1 == p.layers && blockIdx.x == 0) p.weights[lane] = choice.weight;
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(&s.routed);
    barrier.let_workers_go();
    barrier.arrive_and_wait();  // gate and up
    barrier.let_workers_go();
    barrier.arrive_and_wait();  // down
    barrier.let_workers_go();
  }
  barrier.leave();
  let_next_kernel_start();
}

ProductShape shape_of(const Weight& w, int product, int matrices) {
  const Tiles tiles(w);
  return {.matrices = matrices,
          .rows = w.rows,
          .groups = tiles.row_blocks * kTile / group_rows(product),
          .units = tiles.units,
          .chunks = is_mxfp4(product) ? (tiles.units + 1) / 2 : tiles.units,
          .cut = false};
}

ProductWeights weights_of(const Weight& w, const Tensor& bias) {
  const Tiles tiles(w);
  return {.data = tiles.data, .scales = tiles.row_scales, .bias = bias.as<float>()};
}

// Of the sizes and formats that the kernel is made for.
bool fits(const Decode& op, const DecodeSizes& size, int blocks) {
  const auto formats_fit = [](const DecodeLayer& l) {
    return l.qkv.format == Format::fp8 && l.out.format == Format::fp8 &&
           l.gate_up.format == Format::mxfp4_fp8 && l.down.format == Format::mxfp4_fp8 &&
           l.kv.pages.dtype == DType::bf16;
  };
  const auto width_fits = [](int columns) {
    return columns % kTile == 0 && columns > kTile && columns <= kMaxHidden;
  };
  return op.x.dtype == DType::bf16 && int(op.layers.size()) <= kMaxDecodeLayers &&
         std::all_of(op.layers.begin(), op.layers.end(), formats_fit) && width_fits(size.hidden) &&
         width_fits(size.ffn) && op.head_dim == kTileDim && op.heads <= kHeads * size.kv_heads &&
         size.kv_heads <= std::min(blocks, kMaxKvHeads) && op.layers[0].qkv.rows <= kMaxQkv &&
         op.heads * op.head_dim * 2 <= int(sizeof(Shared::tokens)) &&
         size.experts <= std::min(blocks, kMaxExperts) && size.top_k <= kMaxTopK;
}

}  // namespace

bool decode(Stream& stream, const Decode& op) {
  const DecodeSizes size = sizes_of(op);
  const int blocks = multiprocessors();
  if (!fits(op, size, blocks)) return false;
  constexpr int kSharedBytes = kWarpgroups * kRingBytes + int(sizeof(Shared));
  if (resident_blocks<decode_kernel>("decode", kThreads, kSharedBytes) < blocks) return false;

  const DecodeLayer& first = op.layers[0];
  DecodeParams params = {.shapes = {shape_of(first.qkv, kQkv, 1), shape_of(first.out, kOut, 1),
                                    shape_of(first.gate_up, kGateUp, size.top_k),
                                    shape_of(first.down, kDown, size.top_k)}};
  for (int i = 0; i < kProducts; ++i) {  // also what a block has must fit
    ProductShape& shape = params.shapes[i];
    const int groups = shape.matrices * shape.groups;
    // Then a group is of two blocks at most. Gates and ups must meet in one block.
    shape.cut = i != kGateUp && groups * shape.chunks / blocks >= shape.chunks;
    const int touched = (groups + blocks - 1) / blocks + shape.cut;
    if (touched > std::min(shape.groups, kMaxBlockGroups) || touched * group_rows(i) > kWorkers ||
        touched * group_rows(i) * teams(i) > kMaxSums || (is_mxfp4(i) && shape.chunks > kMaxChunks))
      return false;
  }
  const auto take = [&](DType dtype, int64_t n) { return stream.scratch->take(dtype, {n}); };
  params.layers = int(op.layers.size());
  params.hidden = size.hidden, params.heads = op.heads, params.kv_heads = size.kv_heads;
  params.experts = size.experts, params.top_k = size.top_k, params.ffn = size.ffn;
  params.eps = op.eps, params.limit = op.limit, params.alpha = op.alpha, params.scale = op.scale;
  params.concentration = op.rope.concentration;
  params.inverse_frequency = op.rope.inverse_frequency.as<float>();
  params.position = op.batch->positions.as<int>();
  params.x = elements<Bf16>(op.x);
  params.attended = elements<Bf16>(take(DType::bf16, op.heads * op.head_dim));
  params.parts = take(DType::f32, size.kv_heads * kMaxSplits * kPart).as<float>();
  params.logits = take(DType::f32, size.experts).as<float>();
  params.gated = elements<Bf16>(take(DType::bf16, size.top_k * size.ffn));
  params.rows = elements<Bf16>(op.expert_rows);
  params.weights = op.expert_weights.as<float>();
  for (size_t i = 0; i < op.layers.size(); ++i) {
    const DecodeLayer& l = op.layers[i];
    params.layer[i] = {
        .of = {weights_of(l.qkv, l.qkv_bias), weights_of(l.out, l.out_bias),
               weights_of(l.gate_up, l.gate_up_bias), weights_of(l.down, l.down_bias)},
        .attention_gain = l.attention_gain.as<float>(),
        .sinks = l.sinks.as<float>(),
        .moe_gain = l.moe_gain.as<float>(),
        .router = elements<Bf16>(l.router),
        .router_bias = l.router_bias.as<float>(),
        .pages = elements<Bf16>(l.kv.pages),
        .page_table = op.batch->pages[int(l.kv.pool)].as<int>(),
        .window = l.window};
  }
  launch<decode_kernel>(
      "decode",
      {.blocks = dim3(unsigned(blocks)), .threads = kThreads, .shared_bytes = kSharedBytes}, stream,
      params);
  return true;
}

}  // namespace rose::cuda
