#include "kernels/matmul/matmul.h"

#include "kernels/ref.h"
#include "kernels/ref_math.h"

namespace rose::ref {

void matmul(Stream& stream, const Matmul& op) {
  Dim tokens("tokens"), rows("rows", op.weight.rows), columns("columns", op.weight.columns);
  shape_check("matmul", op.x, "x", {&tokens, &columns});
  shape_check("matmul", op.y, "y", {&tokens, &rows});
  if (op.bias) shape_check("matmul", op.bias, "bias", {&rows});
  const float* bias = op.bias ? op.bias.as<float>() : nullptr;
  const std::vector<double> x = read_inputs(op.weight.format, op.x);

  with_type_of(op.y, "matmul", [&]<class T>(T) {
    T* y = op.y.as<T>();
    stream.threads->parallel_for(rows, kLanes, [&](int64_t begin, int64_t end) {
      std::vector<Lanes> w(static_cast<size_t>(columns.size));
      for (int64_t row = begin; row < end; row += kLanes) {
        read_rows(op.weight, 0, int(row), w.data());
        for (int64_t token = 0; token < tokens; ++token) {
          const Lanes sum = dot(x.data() + token * columns, w.data(), int(columns));
          for (int64_t r = row; r < std::min(row + kLanes, end); ++r) {
            T& to = y[token * rows + r];
            const T value = round_to<T>(sum.at[r - row] + (bias ? bias[r] : 0));
            to = op.add ? from_f32<T>(to_f32(to) + to_f32(value)) : value;
          }
        }
      }
    });
  });
}

}  // namespace rose::ref
