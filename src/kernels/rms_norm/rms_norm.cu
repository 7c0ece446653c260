#include "kernels/rms_norm/rms_norm.h"

#include "device/launch.cuh"
#include "device/ptx.cuh"
#include "device/warp.cuh"
#include "kernels/cuda.h"

namespace rose::cuda {

namespace {

constexpr int kThreads = 384;

template <class T>
struct Params {
  T* y;                  // [tokens, hidden]
  T* x;                  // [tokens, hidden]
  const T* add;          // [tokens, terms, hidden] or null
  const float* weights;  // [tokens, terms]
  const float* gain;     // [hidden]
  int hidden, terms;
  float eps;
};

// Values that a thread reads and writes at once: 16 bytes of bf16 where rows are aligned for it.
template <class T, int kSize>
struct alignas(sizeof(T) * kSize) Pack {
  T at[kSize];
};

// One block a row. A thread keeps its part of the row in registers, so memory sees it once; rows
// longer than kThreads * kSize * kKept are read again.
//   grid   tokens
//   needs  hidden % kSize == 0
template <class T, int kSize>
__global__ void __launch_bounds__(kThreads) rms_norm_kernel(const __grid_constant__ Params<T> p) {
  using Values = Pack<T, kSize>;
  const int64_t row = int64_t(blockIdx.x) * p.hidden;
  constexpr int kStep = kThreads * kSize;
  const int first = threadIdx.x * kSize;
  let_next_kernel_start();  // matmul, which reads no more than its weights before it waits
  float gain[kSize] = {};   // of the first step: no kernel writes it
  if (first < p.hidden)
#pragma unroll
    for (int i = 0; i < kSize; ++i) gain[i] = p.gain[first + i];
  wait_for_previous_kernel();

  Values kept = {};  // of the first step
  float sum = 0;
  for (int h = first; h < p.hidden; h += kStep) {
    Values x = *reinterpret_cast<const Values*>(p.x + row + h);
    if (p.add) {
      float moved[kSize] = {};
#pragma unroll 4
      for (int term = 0; term < p.terms; ++term) {
        const int64_t at = int64_t(blockIdx.x) * p.terms + term;
        const Values add = *reinterpret_cast<const Values*>(p.add + at * p.hidden + h);
#pragma unroll
        for (int i = 0; i < kSize; ++i) moved[i] += p.weights[at] * to_float(add.at[i]);
      }
#pragma unroll
      for (int i = 0; i < kSize; ++i)
        x.at[i] = from_float<T>(to_float(x.at[i]) + rounded<T>(moved[i]));
      *reinterpret_cast<Values*>(p.x + row + h) = x;
    }
#pragma unroll
    for (int i = 0; i < kSize; ++i) sum += to_float(x.at[i]) * to_float(x.at[i]);
    if (h == first) kept = x;
  }
  const float scale = 1 / sqrtf(block_sum<kThreads>(sum) / float(p.hidden) + p.eps);

  for (int h = first; h < p.hidden; h += kStep) {
    Values x = h == first ? kept : *reinterpret_cast<const Values*>(p.x + row + h);
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      x.at[i] = from_float<T>(to_float(x.at[i]) * scale * (h == first ? gain[i] : p.gain[h + i]));
    *reinterpret_cast<Values*>(p.y + row + h) = x;
  }
}

}  // namespace

void rms_norm(Stream& stream, const RmsNorm& op) {
  Dim tokens("tokens"), terms("terms"), hidden("hidden");
  shape_check("rms_norm", op.x, "x", {&tokens, &hidden});
  shape_check("rms_norm", op.y, "y", {&tokens, &hidden});
  shape_check("rms_norm", op.gain, "gain", {&hidden});
  if (op.add) {
    shape_check("rms_norm", op.add, "add", {&tokens, &terms, &hidden});
    shape_check("rms_norm", op.weights, "weights", {&tokens, &terms});
  }
  if (tokens == 0) return;

  with_type_of(op.x, "rms_norm", [&]<class T>(T) {
    const Params<T> params = {.y = elements<T>(op.y),
                              .x = elements<T>(op.x),
                              .add = op.add ? elements<T>(op.add) : nullptr,
                              .weights = op.add ? op.weights.as<float>() : nullptr,
                              .gain = op.gain.as<float>(),
                              .hidden = int(hidden),
                              .terms = int(terms),
                              .eps = op.eps};
    const Grid grid = {.blocks = dim3(unsigned(tokens)), .threads = kThreads};
    constexpr int kWide = 16 / sizeof(T);
    const auto aligned = [&](const Tensor& t) { return uintptr_t(t.data) % 16 == 0; };
    if (hidden % kWide == 0 && aligned(op.x) && aligned(op.y) && aligned(op.add))
      launch<rms_norm_kernel<T, kWide>>("rms_norm", grid, stream, params);
    else
      launch<rms_norm_kernel<T, 1>>("rms_norm", grid, stream, params);
  });
}

}  // namespace rose::cuda
