#include "kernels/embed/embed.h"

#include "device/launch.cuh"
#include "device/ptx.cuh"
#include "device/warp.cuh"
#include "kernels/cuda.h"

namespace rose::cuda {

namespace {

constexpr int kThreads = 384;

template <class T>
struct Params {
  T* y;                        // [tokens, hidden]
  const int* token_ids;        // [tokens]
  const int* newest;           // [n] or null
  const __nv_bfloat16* table;  // [vocab, hidden]
  int hidden;
};

// Eight values at a time, if rows are whole eights: the row comes from far.
//   grid   tokens
template <class T>
__global__ void __launch_bounds__(kThreads) embed_kernel(const __grid_constant__ Params<T> p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  int id = p.token_ids[blockIdx.x];
  if (id < 0) id = max(p.newest[~id], 0);
  const __nv_bfloat16* row = p.table + int64_t(id) * p.hidden;
  T* y = p.y + int64_t(blockIdx.x) * p.hidden;
  if (p.hidden % 8 == 0) {
#pragma unroll 2
    for (int h = threadIdx.x * 8; h < p.hidden; h += kThreads * 8) {
      const uint4 eight = *reinterpret_cast<const uint4*>(row + h);
      const __nv_bfloat16* value = reinterpret_cast<const __nv_bfloat16*>(&eight);
#pragma unroll
      for (int i = 0; i < 8; ++i) y[h + i] = from_float<T>(to_float(value[i]));
    }
    return;
  }
  for (int h = threadIdx.x; h < p.hidden; h += kThreads) y[h] = from_float<T>(to_float(row[h]));
}

}  // namespace

void embed(Stream& stream, const Embed& op) {
  Dim tokens("tokens"), hidden("hidden"), vocab("vocab");
  shape_check("embed", op.token_ids, "token_ids", {&tokens});
  shape_check("embed", op.table, "table", {&vocab, &hidden});
  shape_check("embed", op.y, "y", {&tokens, &hidden});
  if (tokens == 0) return;

  with_type_of(op.y, "embed", [&]<class T>(T) {
    launch<embed_kernel<T>>("embed", {.blocks = dim3(unsigned(tokens)), .threads = kThreads},
                            stream,
                            Params<T>{.y = elements<T>(op.y),
                                      .token_ids = op.token_ids.as<int>(),
                                      .newest = static_cast<const int*>(op.newest.data),
                                      .table = elements<__nv_bfloat16>(op.table),
                                      .hidden = int(hidden)});
  });
}

}  // namespace rose::cuda
