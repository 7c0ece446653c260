#include "kernels/attend/attend.h"

#include "kernels/attend/variants.cuh"
#include "kernels/cuda.h"

namespace rose::cuda {

namespace {

constexpr int kMaxHeadDim = 256;

// Any head, any type. One warp a token and head. Lanes are keys for the scores, dimensions for the values.
//   grid   tokens, heads
template <class T, class K>
__global__ void __launch_bounds__(kWarp)
    plain_kernel(const __grid_constant__ AttendParams<T, K> p) {
  constexpr int kPerLane = kMaxHeadDim / kWarp;
  __shared__ float q[kMaxHeadDim];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int token = blockIdx.x, head = blockIdx.y, lane = threadIdx.x, dim = p.head_dim;
  const int kv_head = head / (p.heads / p.kv_heads), position = p.positions[token];
  const T* query = p.qkv + (int64_t(token) * (p.heads + 2 * p.kv_heads) + head) * dim;
  for (int d = lane; d < dim; d += kWarp) q[d] = to_float(query[d]);
  __syncwarp();
  const int* table = p.page_table + int64_t(p.sequence[token]) * p.table_width;
  const auto row = [&](int key, int part) {
    return p.pages +
           ((int64_t(table[key / kPageSize]) * p.kv_heads + kv_head) * 2 + part) * kPageSize * dim +
           key % kPageSize * dim;
  };

  float most = p.sinks[head], total = 1, sum[kPerLane] = {};
  for (int first = max(0, position - p.window + 1); first <= position; first += kWarp) {
    const int key = first + lane;
    float score = -INFINITY;
    if (key <= position) {
      const K* k = row(key, 0);
      score = 0;
      for (int d = 0; d < dim; ++d) score += q[d] * to_float(k[d]);
      score *= p.scale;
    }
    const float now = fmaxf(most, warp_max(score));
    const float shrink = expf(most - now), weight = expf(score - now);
    most = now;
    total = total * shrink + warp_sum(weight);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) sum[i] *= shrink;
    for (int j = 0; j < kWarp && first + j <= position; ++j) {
      const float of_key = __shfl_sync(~0u, weight, j);
      const K* v = row(first + j, 1);
#pragma unroll
      for (int i = 0; i < kPerLane; ++i)
        if (lane + i * kWarp < dim) sum[i] += of_key * to_float(v[lane + i * kWarp]);
    }
  }
  T* y = p.y + (int64_t(token) * p.heads + head) * dim;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i)
    if (lane + i * kWarp < dim) y[lane + i * kWarp] = from_float<T>(sum[i] / total);
}

}  // namespace

void attend(Stream& stream, const Attend& op) {
  Dim tokens("tokens", op.batch->tokens), seqs("seqs", op.batch->seqs), width("page table width");
  Dim pages("pages"), kv_heads("kv_heads"), two("keys and values", 2), heads("heads", op.heads);
  Dim page("page_size head_dim", kPageSize * op.head_dim);
  Dim q("heads head_dim", op.heads * op.head_dim);
  shape_check("attend", op.kv.pages, "kv.pages", {&pages, &kv_heads, &two, &page});
  Dim all("(heads + 2 kv_heads) head_dim", (op.heads + 2 * kv_heads) * op.head_dim);
  shape_check("attend", op.y, "y", {&tokens, &q});
  shape_check("attend", op.qkv, "qkv", {&tokens, &all});
  shape_check("attend", op.sinks, "sinks", {&heads});
  shape_check("attend", op.batch->positions, "positions", {&tokens});
  shape_check("attend", op.batch->sequence, "sequence", {&tokens});
  const Tensor& table = op.batch->pages[int(op.kv.pool)];
  shape_check("attend", table, "page table", {&seqs, &width});
  ROSE_CHECK(op.heads % kv_heads == 0, "attend: %d heads on %ld kv heads", op.heads,
             long(kv_heads));
  ROSE_CHECK(op.head_dim <= kMaxHeadDim, "attend: head_dim %d, at most %d", op.head_dim,
             kMaxHeadDim);
  if (tokens == 0) return;
  const bool few = tokens < 4 * seqs || heads > kTileHeads * kv_heads;  // a sequence
  const bool tensor =
      op.qkv.dtype == DType::bf16 && op.kv.pages.dtype == DType::bf16 && op.head_dim == kTileDim;
  // Each token's own key is the only one that this step adds to its sequence: attention itself rotates.
  const bool rotates = op.rope.inverse_frequency && tensor && few && tokens == seqs;
  if (op.rope.inverse_frequency && !rotates) rope_store(stream, rope_store_of(op));

  with_type_of(op.qkv, "attend", [&]<class T>(T) {
    with_type_of(op.kv.pages, "attend", [&]<class K>(K) {
      const AttendParams<T, K> params = {
          .y = elements<T>(op.y),
          .qkv = elements<T>(op.qkv),
          .pages = elements<K>(op.kv.pages),
          .positions = op.batch->positions.as<int>(),
          .sequence = op.batch->sequence.as<int>(),
          .page_table = table.as<int>(),
          .sinks = op.sinks.as<float>(),
          .parts = nullptr,
          .first = op.batch->first.as<int>(),
          .seqs = op.batch->seqs,
          .table_width = int(width),
          .window = op.window,
          .heads = op.heads,
          .kv_heads = int(kv_heads),
          .head_dim = op.head_dim,
          .splits = 1,
          .scale = op.scale,
          .inverse_frequency = rotates ? op.rope.inverse_frequency.as<float>() : nullptr,
          .concentration = op.rope.concentration};
      if constexpr (std::is_same_v<T, Bf16> && std::is_same_v<K, Bf16>)
        if (tensor) return few ? attend_split(stream, op, params) : attend_tile(stream, op, params);
      launch<plain_kernel<T, K>>(
          "attend", {.blocks = dim3(unsigned(tokens), unsigned(heads)), .threads = kWarp}, stream,
          params);
    });
  });
}

}  // namespace rose::cuda
