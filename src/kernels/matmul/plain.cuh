// A product in plain f32 arithmetic, of any shape, type and format: what the quick variants do not take,
// and what they are compared with on a GPU.
#pragma once
#include "device/warp.cuh"
#include "kernels/pack/tiles.cuh"

namespace rose::cuda {

constexpr int kPlainWarps = 8;
constexpr int kPlainTokens = 8;

template <class T>
struct PlainProduct {
  Tiles w;
  const T* x;            // [.., columns]
  void* y;               // [tokens, rows]
  bool y_bf16, add;      // `add`: to what y holds
  const float* bias;     // [experts, rows] or null
  const int* expert_of;  // of each token, or null: one matrix
  int share;             // rows of y that read the same row of x
  int tokens;
};

// One warp a row of weights, for up to kPlainTokens tokens (one, where each has its own expert).
//   grid   rows / kPlainWarps, tokens / (expert_of ? 1 : kPlainTokens)
template <class T>
__global__ void __launch_bounds__(kPlainWarps* kWarp)
    plain_product_kernel(const __grid_constant__ PlainProduct<T> p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int row = blockIdx.x * kPlainWarps + threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (row >= p.w.rows) return;
  const int of_block = p.expert_of ? 1 : kPlainTokens;
  const int first = blockIdx.y * of_block, tokens = min(of_block, p.tokens - first);
  const int expert = p.expert_of ? p.expert_of[first] : 0;

  float sum[kPlainTokens] = {};
  for (int column = lane; column < p.w.columns; column += kWarp) {
    const float weight = weight_value(p.w, expert, row, column);
#pragma unroll
    for (int i = 0; i < kPlainTokens; ++i)
      if (i < tokens)
        sum[i] += weight * to_float(p.x[int64_t((first + i) / p.share) * p.w.columns + column]);
  }
#pragma unroll
  for (int i = 0; i < kPlainTokens; ++i) {
    if (i >= tokens) break;
    const float total = warp_sum(sum[i]) + (p.bias ? p.bias[int64_t(expert) * p.w.rows + row] : 0);
    const int64_t at = int64_t(first + i) * p.w.rows + row;
    if (lane != 0) continue;
    if (p.y_bf16) {
      __nv_bfloat16& y = static_cast<__nv_bfloat16*>(p.y)[at];
      y = __float2bfloat16_rn(p.add ? to_float(y) + rounded<__nv_bfloat16>(total) : total);
    } else {
      float& y = static_cast<float*>(p.y)[at];
      y = p.add ? y + total : total;
    }
  }
}

template <class T>
void plain_product(const char* name, Stream& stream, const PlainProduct<T>& product) {
  const int of_block = product.expert_of ? 1 : kPlainTokens;
  launch<plain_product_kernel<T>>(
      name,
      {.blocks = dim3(unsigned((product.w.rows + kPlainWarps - 1) / kPlainWarps),
                      unsigned((product.tokens + of_block - 1) / of_block)),
       .threads = kPlainWarps * kWarp},
      stream, product);
}

}  // namespace rose::cuda
