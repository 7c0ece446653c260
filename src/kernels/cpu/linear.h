// What matmul and experts share: inputs in the form a weight's format meets, and the product.
#pragma once
#include "device/device.h"
#include "kernels/cpu/kernels.h"
#include "kernels/weight.h"

namespace rose::cpu {

// A row of a matrix of activations, from a column on.
inline Row part_of(const Tensor& tensor, int64_t row, int64_t column) {
  const int64_t at = row * tensor.dims[size_t(tensor.rank - 1)] + column;
  return {static_cast<char*>(tensor.data) + at * bytes_of(tensor.dtype),
          tensor.dtype == DType::bf16};
}
inline Row row_of(const Tensor& tensor, int64_t row) { return part_of(tensor, row, 0); }

// Checks that an activation is f32 or bf16.
void activation_check(const char* op, const Tensor& tensor, const char* operand);

// x [rows, columns] as `format` meets it, in scratch memory.
Inputs prepare_inputs(const Kernels&, Stream&, const Tensor& x, Format format);

// The first byte of one of a weight's matrices.
const uint8_t* matrix_of(const Weight& weight, int expert);

// Roughly what `tokens` rows of inputs against a group of rows take.
double group_ns(const Weight& weight, int tokens);

}  // namespace rose::cpu
