// The variant of matmul for many tokens (grouped.cuh), in a file of its own: it takes long to compile.
#pragma once
#include "device/device.h"
#include "kernels/matmul/matmul.h"

namespace rose::cuda {

// x in bf16, weights in bf16 or fp8. fp8 meets E4M3 tokens, one scale for 128 columns of each.
bool grouped_takes(const Matmul& op);
void grouped_matmul(Stream& stream, const Matmul& op);

}  // namespace rose::cuda
