// How fast a GPU's memory is read by a kernel that does nothing else: what benchmarks compare with.
#include <algorithm>

#include "device/cuda.h"
#include "device/launch.cuh"

namespace rose::cuda {

namespace {

constexpr int kThreads = 512;

struct Params {
  const uint4* from;
  int64_t count;
  uint32_t* seen;  // written if the sum is one that it never is, so that nothing is left out
};

//   grid   two blocks a multiprocessor
__global__ void __launch_bounds__(kThreads) read_kernel(const __grid_constant__ Params p) {
  constexpr int kAtOnce = 8;
  const int64_t step = int64_t(gridDim.x) * kThreads;
  uint32_t sum = 0;
  int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  for (; i + (kAtOnce - 1) * step < p.count; i += kAtOnce * step) {
    uint4 values[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) values[j] = __ldcs(p.from + i + j * step);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) sum += values[j].x ^ values[j].y ^ values[j].z ^ values[j].w;
  }
  if (sum == 0x9e3779b9) *p.seen = sum;
}

}  // namespace

double measure_read(Stream& stream) {
  constexpr int kRepeats = 5;
  const Device& device = *stream.device;
  int64_t bytes = int64_t(4) << 30;
  bytes = std::min(bytes, device.free_bytes() / 2) / 16 * 16;
  void* memory = bytes > 0 ? device.allocate(bytes) : nullptr;
  if (!memory) return 0;
  device.zero(stream, memory, bytes);
  cudaEvent_t start, end;
  check(cudaEventCreate(&start), "measuring memory");
  check(cudaEventCreate(&end), "measuring memory");
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    check(cudaEventRecord(start, native(stream)), "measuring memory");
    launch<read_kernel>(
        "read", {.blocks = dim3(unsigned(2 * multiprocessors())), .threads = kThreads}, stream,
        Params{.from = static_cast<const uint4*>(memory),
               .count = bytes / 16,
               .seen = static_cast<uint32_t*>(memory)});
    check(cudaEventRecord(end, native(stream)), "measuring memory");
    check(cudaEventSynchronize(end), "measuring memory");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start, end), "measuring memory");
    best = std::max(best, double(bytes) / (double(ms) / 1e3));
  }
  check(cudaEventDestroy(start), "measuring memory");
  check(cudaEventDestroy(end), "measuring memory");
  device.release(memory, bytes);
  return best;
}

}  // namespace rose::cuda
