#include "kernels/rope_store/rope_store.h"

#include "device/launch.cuh"
#include "device/ptx.cuh"
#include "device/warp.cuh"
#include "kernels/cuda.h"
#include "kernels/rope_store/turn.cuh"

namespace rose::cuda {

namespace {

constexpr int kThreads = 256;

template <class T, class K>
struct Params {
  T* qkv;                 // [tokens, (heads + 2 kv_heads) head_dim]
  K* pages;               // [pages, kv_heads, 2, page_size head_dim]
  const int* positions;   // [tokens]
  const int* sequence;    // [tokens]
  const int* page_table;  // [seqs, table_width]
  const float* inverse_frequency;
  float concentration;
  int table_width;
  int heads, kv_heads, head_dim;
};

// A few blocks a token, a part of the heads each. cos and sin of a pair are the same in all heads: computed
// once a block, kept in shared memory.
//   grid   tokens, parts
//   shared head_dim floats
template <class T, class K>
__global__ void __launch_bounds__(kThreads)
    rope_store_kernel(const __grid_constant__ Params<T, K> p) {
  extern __shared__ float cos_sin[];
  const int half = p.head_dim / 2;
  float* cos = cos_sin;
  float* sin = cos_sin + half;
  // Positions and page tables are no kernel's of this step: all but the values may be ready early.
  const int token = blockIdx.x, position = p.positions[token];
  for (int k = threadIdx.x; k < half; k += kThreads) {
    const float2 turn = turn_of<T>(position, p.inverse_frequency[k], p.concentration);
    cos[k] = turn.x, sin[k] = turn.y;
  }
  __syncthreads();

  const int page = p.page_table[int64_t(p.sequence[token]) * p.table_width + position / kPageSize];
  wait_for_previous_kernel();
  let_next_kernel_start();
  T* row = p.qkv + int64_t(token) * (p.heads + 2 * p.kv_heads) * p.head_dim;
  const int rotated = (p.heads + p.kv_heads) * half;  // pairs of queries and keys
  const auto place = [&](int kv_head, int part) {
    return p.pages + ((int64_t(page) * p.kv_heads + kv_head) * 2 + part) * kPageSize * p.head_dim +
           position % kPageSize * p.head_dim;
  };
  const int start = blockIdx.y * kThreads + threadIdx.x, step = gridDim.y * kThreads;
  for (int i = start; i < rotated; i += step) {
    const int head = i / half, k = i % half;
    T* x = row + head * p.head_dim;
    const float a = to_float(x[k]), b = to_float(x[k + half]);
    const float low = a * cos[k] - b * sin[k], high = b * cos[k] + a * sin[k];
    x[k] = from_float<T>(low);
    x[k + half] = from_float<T>(high);
    if (head >= p.heads) {  // rounded as an activation, then as the cache keeps it
      K* key = place(head - p.heads, 0);
      key[k] = from_float<K>(rounded<T>(low));
      key[k + half] = from_float<K>(rounded<T>(high));
    }
  }
  const T* values = row + (p.heads + p.kv_heads) * p.head_dim;
  for (int i = start; i < p.kv_heads * p.head_dim; i += step)
    place(i / p.head_dim, 1)[i % p.head_dim] = from_float<K>(to_float(values[i]));
}

}  // namespace

void rope_store(Stream& stream, const RopeStore& op) {
  Dim tokens("tokens", op.batch->tokens), seqs("seqs", op.batch->seqs), width("page table width");
  Dim pages("pages"), kv_heads("kv_heads"), two("keys and values", 2), half("head_dim / 2");
  Dim page("page_size head_dim", kPageSize * op.head_dim);
  shape_check("rope_store", op.kv.pages, "kv.pages", {&pages, &kv_heads, &two, &page});
  Dim all("(heads + 2 kv_heads) head_dim", (op.heads + 2 * kv_heads) * op.head_dim);
  shape_check("rope_store", op.qkv, "qkv", {&tokens, &all});
  shape_check("rope_store", op.rope.inverse_frequency, "inverse_frequency", {&half});
  shape_check("rope_store", op.batch->positions, "positions", {&tokens});
  const Tensor& table = op.batch->pages[int(op.kv.pool)];
  shape_check("rope_store", table, "page table", {&seqs, &width});
  ROSE_CHECK(op.head_dim == 2 * half, "rope_store: head_dim %d, %ld frequencies", op.head_dim,
             long(half));
  if (tokens == 0) return;

  with_type_of(op.qkv, "rope_store", [&]<class T>(T) {
    with_type_of(op.kv.pages, "rope_store", [&]<class K>(K) {
      launch<rope_store_kernel<T, K>>(
          "rope_store",
          {.blocks = dim3(unsigned(tokens), tokens <= 64 ? 4 : 1),
           .threads = kThreads,
           .shared_bytes = op.head_dim * int(sizeof(float))},
          stream,
          Params<T, K>{.qkv = elements<T>(op.qkv),
                       .pages = elements<K>(op.kv.pages),
                       .positions = op.batch->positions.as<int>(),
                       .sequence = op.batch->sequence.as<int>(),
                       .page_table = table.as<int>(),
                       .inverse_frequency = op.rope.inverse_frequency.as<float>(),
                       .concentration = op.rope.concentration,
                       .table_width = int(width),
                       .heads = op.heads,
                       .kv_heads = int(kv_heads),
                       .head_dim = op.head_dim});
    });
  });
}

}  // namespace rose::cuda
