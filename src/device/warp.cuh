// What the lanes of a warp and the warps of a block do together, and numbers in and out of memory.
#pragma once
#include <cuda_bf16.h>

#include "base/check.h"
#include "device/ptx.cuh"
#include "tensor/tensor.h"

namespace rose::cuda {

constexpr int kWarp = 32;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

// Two bf16 as they lie in a register.
__device__ __forceinline__ float2 halves(uint32_t pair) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

template <class T>
__device__ T from_float(float x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(x);
  else
    return x;
}

// x rounded to T and widened again.
template <class T>
__device__ float rounded(float x) {
  return to_float(from_float<T>(x));
}

// A f32 to f16 that stays finite: activations past 65,504 are cut, NaN stays.
__device__ inline float in_f16_range(float x) {
  return x > 65504.f ? 65504.f : x < -65504.f ? -65504.f : x;
}
__device__ inline uint32_t bf16_to_f16(uint32_t pair) {
  return pack_f16(in_f16_range(__uint_as_float(pair << 16)),
                  in_f16_range(__uint_as_float(pair & 0xffff0000u)));
}

__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int lane = kWarp / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(~0u, x, lane);
  return x;
}

__device__ inline float warp_max(float x) {
#pragma unroll
  for (int lane = kWarp / 2; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, lane));
  return x;
}

// The sum over the block, in every thread; each warp's part is added in the order of warps.
template <int kThreads>
__device__ float block_sum(float x) {
  __shared__ float parts[kThreads / kWarp];
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = 0;
#pragma unroll
  for (int i = 0; i < kThreads / kWarp; ++i) x += parts[i];
  return x;
}

// The elements of a tensor as the CUDA type T: float, __nv_bfloat16, int.
template <class T>
T* elements(const Tensor& tensor) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return reinterpret_cast<T*>(tensor.as<bf16>());
  else
    return tensor.as<T>();
}

// Calls body with a value of the element type of an activation.
template <class Body>
void with_type_of(const Tensor& tensor, const char* op, Body&& body) {
  switch (tensor.dtype) {
    case DType::f32: return body(float{});
    case DType::bf16: return body(__nv_bfloat16{});
    default: ROSE_CHECK(false, "%s: %s, wanted f32 or bf16", op, show(tensor).c_str());
  }
}

}  // namespace rose::cuda
