// What matmul and experts share: inputs in the form a weight's format meets, and the product.
#pragma once
#include "device/device.h"
#include "kernels/cpu/kernels.h"
#include "kernels/weight.h"

namespace rose::cpu {

inline Row row_of(const Tensor& tensor, int64_t row) {
  const int64_t at = row * tensor.dims[size_t(tensor.rank - 1)] * bytes_of(tensor.dtype);
  return {static_cast<char*>(tensor.data) + at, tensor.dtype == DType::bf16};
}

// Checks that an activation is f32 or bf16.
void activation_check(const char* op, const Tensor& tensor, const char* operand);

// x [rows, columns] as `format` meets it, in scratch memory.
Inputs prepare_inputs(const Kernels&, Stream&, const Tensor& x, Format format);

// The first byte of one of a weight's matrices.
const uint8_t* matrix_of(const Weight& weight, int expert);

// Roughly what `tokens` rows of inputs against a group of rows take.
double group_ns(const Weight& weight, int tokens);

}  // namespace rose::cpu
