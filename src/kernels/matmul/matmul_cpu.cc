#include "device/arena.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/share.h"
#include "kernels/matmul/matmul.h"

namespace rose::cpu {

void matmul(const Kernels& kernels, Stream& stream, const Matmul& op) {
  Dim tokens("tokens"), rows("rows", op.weight.rows), columns("columns", op.weight.columns);
  shape_check("matmul", op.x, "x", {&tokens, &columns});
  shape_check("matmul", op.y, "y", {&tokens, &rows});
  if (op.bias) shape_check("matmul", op.bias, "bias", {&rows});
  activation_check("matmul", op.y, "y");
  if (tokens == 0) return;

  const Taken own(*stream.scratch);
  const Tensor y = op.add ? stream.scratch->take(op.y.dtype, {tokens, rows}) : op.y;
  const Inputs inputs = prepare_inputs(kernels, stream, op.x, op.weight.format);
  const int64_t scratch_bytes = dot_scratch_bytes(op.weight.columns);
  uint8_t* scratch = take_each<uint8_t>(stream, DType::u8, scratch_bytes);
  share(stream, groups_of(op.weight.rows), 2, group_ns(op.weight, int(tokens)),
        [&](int64_t begin, int64_t end, int thread) {
          kernels.dot[int(op.weight.format)]({
              .matrix = matrix_of(op.weight, 0),
              .rows = op.weight.rows,
              .columns = op.weight.columns,
              .first_group = int(begin),
              .last_group = int(end),
              .x = inputs,
              .tokens = int(tokens),
              .bias = op.bias ? op.bias.as<float>() : nullptr,
              .y = row_of(y, 0),
              .scratch = scratch + thread * scratch_bytes,
          });
        });
  if (!op.add) return;
  share(stream, tokens, 1, double(rows) * 0.1, [&](int64_t begin, int64_t end, int) {
    const float weights[] = {1, 1};
    for (int64_t token = begin; token < end; ++token) {
      const Row terms[] = {row_of(op.y, token), row_of(y, token)};
      kernels.combine(terms, weights, 2, int(rows), row_of(op.y, token));
    }
  });
}

}  // namespace rose::cpu
