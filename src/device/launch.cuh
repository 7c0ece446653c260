// The one way a kernel starts, and how a CUDA error ends the program.
//
// Every kernel lets its successor start early (programmatic dependent launch): blocks of the next
// kernel may begin while the last ones of this kernel still run. So a kernel calls
// wait_for_previous_kernel() before it reads or overwrites anything that an earlier kernel touches.
// What no kernel of a step writes (weights) may be read before.
#pragma once
#include <cuda_runtime.h>

#include "base/check.h"
#include "device/device.h"

namespace rose::cuda {

inline void check(cudaError_t error, const char* what) {
  ROSE_CHECK(error == cudaSuccess, "%s: %s", what, cudaGetErrorString(error));
}

// The stream all of this process's work runs on, unless `stream` has its own.
cudaStream_t native(Stream& stream);

int multiprocessors();

struct Grid {
  dim3 blocks;
  int threads;
  int shared_bytes = 0;
};

template <auto kKernel, class Params>
void launch(const char* name, const Grid& grid, Stream& stream, const Params& params) {
  // More than 48 KiB of shared memory is granted only on request.
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
