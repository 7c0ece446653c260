#include "kernels/cpu/linear.h"

#include <algorithm>

#include "kernels/cpu/layout.h"
#include "kernels/cpu/share.h"

namespace rose::cpu {

void activation_check(const char* op, const Tensor& tensor, const char* operand) {
  ROSE_CHECK(tensor.dtype == DType::f32 || tensor.dtype == DType::bf16,
             "%s: %s is %s, wanted f32 or bf16", op, operand, show(tensor).c_str());
}

Inputs prepare_inputs(const Kernels& kernels, Stream& stream, const Tensor& x, Format format) {
  activation_check("matmul", x, "x");
  const int64_t rows = x.dims[0];
  const int columns = x.dim(1);
  Inputs inputs;
  if (format == Format::bf16 || format == Format::mxfp4) {
    inputs.stride = (columns + 1) / 2 * 2;
    if (x.dtype == DType::f32 && inputs.stride == columns) {
      inputs.values = x.as<float>();
      return inputs;
    }
    inputs.values = stream.scratch->take(DType::f32, {rows, inputs.stride}).as<float>();
    share(stream, rows, 1, columns * 0.1, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        float* out = inputs.values + row * inputs.stride;
        kernels.convert(row_of(x, row), columns, {out, false});
        if (inputs.stride > columns) out[columns] = 0;
      }
    });
    return inputs;
  }

  ROSE_CHECK(columns % kBlock == 0, "matmul: %d columns in %s, wanted a multiple of %d", columns,
             name_of(format), kBlock);
  const int64_t blocks = columns / kBlock;
  inputs.stride = columns;
  inputs.codes = stream.scratch->take(DType::i8, {rows, columns}).as<int8_t>();
  inputs.scales = stream.scratch->take(DType::f32, {rows, blocks}).as<float>();
  inputs.corrections = stream.scratch->take(DType::i32, {rows, blocks}).as<int32_t>();
  const bool doubled = format == Format::mxfp4_q8;
  share(stream, rows, 1, columns * 0.5, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      kernels.quantise(row_of(x, row), columns, doubled ? 0.5f : 1.0f,
                       doubled ? kE2M1Bias : kQ8Bias, inputs.codes + row * columns,
                       inputs.scales + row * blocks, inputs.corrections + row * blocks);
  });
  return inputs;
}

const uint8_t* matrix_of(const Weight& weight, int expert) {
  const GroupLayout at(weight.format, weight.columns);
  return static_cast<const uint8_t*>(weight.data) +
         expert * (groups_of(weight.rows) * at.group_bytes);
}

double group_ns(const Weight& weight, int tokens) {
  const GroupLayout at(weight.format, weight.columns);
  return std::max(double(at.group_bytes) * 0.06, double(weight.columns) * tokens * 0.05);
}

}  // namespace rose::cpu
