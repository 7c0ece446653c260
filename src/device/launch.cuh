// The one way a kernel starts, and how a CUDA error ends the program.
//
// Every kernel lets its successor start early (programmatic dependent launch): blocks of the next
// kernel may begin while the last ones of this kernel still run. So a kernel calls
// wait_for_previous_kernel() before it reads or overwrites anything that an earlier kernel touches.
// What no kernel of a step writes (weights) may be read before.
#pragma once
#include <cuda_runtime.h>

#include <mutex>

#include "base/check.h"
#include "device/device.h"

namespace rose::cuda {

inline void check(cudaError_t error, const char* what) {
  ROSE_CHECK(error == cudaSuccess, "%s: %s", what, cudaGetErrorString(error));
}

// The stream all of this process's work runs on, unless `stream` has its own. It is shared by all threads, so
// whoever puts something on it holds a Turn: what a thread records as a graph must be its own alone.
cudaStream_t native(Stream& stream);

class Turn {
 public:
  Turn() { lock().lock(); }
  ~Turn() { lock().unlock(); }
  Turn(const Turn&) = delete;

  // Held from the begin to the end of a graph, by the thread that records it.
  static std::recursive_mutex& lock();
};

int multiprocessors();
double measure_read(Stream& stream);  // read_cuda.cu

struct Grid {
  dim3 blocks;
  int threads;
  int shared_bytes = 0;
};

// More than 48 KiB of shared memory is granted only on request; asked for once a kernel.
template <auto kKernel>
void allow_shared(const char* name) {
  static const bool allowed = [&] {
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, kKernel), name);
    int most = 0, device = 0;
    check(cudaGetDevice(&device), name);
    check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), name);
    check(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               most - int(attributes.sharedSizeBytes)),
          name);
    return true;
  }();
  (void)allowed;
}

// Blocks of a kernel that the GPU runs at once.
template <auto kKernel>
int resident_blocks(const char* name, int threads, int shared_bytes) {
  thread_local int last_bytes = -1, last_blocks = 0;
  if (last_bytes != shared_bytes) {
    allow_shared<kKernel>(name);
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&last_blocks, kKernel, threads,
                                                        size_t(shared_bytes)),
          name);
    last_bytes = shared_bytes;
  }
  return last_blocks * multiprocessors();
}

template <auto kKernel, class Params>
void launch(const char* name, const Grid& grid, Stream& stream, const Params& params) {
  const Turn turn;
  allow_shared<kKernel>(name);
  cudaLaunchConfig_t config = {};
  config.gridDim = grid.blocks;
  config.blockDim = dim3(unsigned(grid.threads));
  config.dynamicSmemBytes = size_t(grid.shared_bytes);
  config.stream = native(stream);
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kKernel, params), name);
}

}  // namespace rose::cuda
