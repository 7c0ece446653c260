#include "kernels/gather/gather.h"

#include "device/launch.cuh"
#include "device/ptx.cuh"
#include "device/warp.cuh"
#include "kernels/cuda.h"

namespace rose::cuda {

namespace {

constexpr int kThreads = 256;

template <class T>
struct Params {
  T* y;             // [samples, hidden]
  const T* x;       // [tokens, hidden]
  const int* rows;  // [samples]
  int hidden;
};

//   grid   samples
template <class T>
__global__ void __launch_bounds__(kThreads) gather_kernel(const __grid_constant__ Params<T> p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const T* row = p.x + int64_t(p.rows[blockIdx.x]) * p.hidden;
  T* y = p.y + int64_t(blockIdx.x) * p.hidden;
  for (int h = threadIdx.x; h < p.hidden; h += kThreads) y[h] = row[h];
}

}  // namespace

void gather(Stream& stream, const Gather& op) {
  Dim samples("samples"), tokens("tokens"), hidden("hidden");
  shape_check("gather", op.rows, "rows", {&samples});
  shape_check("gather", op.x, "x", {&tokens, &hidden});
  shape_check("gather", op.y, "y", {&samples, &hidden});
  if (samples == 0) return;

  with_type_of(op.x, "gather", [&]<class T>(T) {
    launch<gather_kernel<T>>("gather", {.blocks = dim3(unsigned(samples)), .threads = kThreads},
                             stream,
                             Params<T>{.y = elements<T>(op.y),
                                       .x = elements<T>(op.x),
                                       .rows = op.rows.as<int>(),
                                       .hidden = int(hidden)});
  });
}

}  // namespace rose::cuda
