#include "kernels/rms_norm/rms_norm.h"

#include <cmath>

#include "kernels/ref.h"
#include "kernels/ref_math.h"

namespace rose::ref {

void rms_norm(Stream&, const RmsNorm& op) {
  Dim tokens("tokens"), terms("terms"), hidden("hidden");
  shape_check("rms_norm", op.x, "x", {&tokens, &hidden});
  shape_check("rms_norm", op.y, "y", {&tokens, &hidden});
  shape_check("rms_norm", op.gain, "gain", {&hidden});
  if (op.add) {
    shape_check("rms_norm", op.add, "add", {&tokens, &terms, &hidden});
    shape_check("rms_norm", op.weights, "weights", {&tokens, &terms});
  }
  const float* gain = op.gain.as<float>();

  with_type_of(op.x, "rms_norm", [&]<class T>(T) {
    for (int token = 0; token < tokens; ++token) {
      T* x = op.x.as<T>() + token * hidden.size;
      T* y = op.y.as<T>() + token * hidden.size;

      double sum = 0;
      for (int h = 0; h < hidden; ++h) {
        if (op.add) {
          const T* add = op.add.as<T>() + token * terms.size * hidden.size + h;
          const float* weights = op.weights.as<float>() + token * terms.size;
          double moved = 0;
          for (int i = 0; i < terms; ++i)
            moved += double(weights[i]) * to_f32(add[i * hidden.size]);
          x[h] = from_f32<T>(to_f32(x[h]) + to_f32(round_to<T>(moved)));
        }
        sum += double(to_f32(x[h])) * to_f32(x[h]);
      }
      const double scale = 1 / std::sqrt(sum / double(hidden) + double(op.eps));
      for (int h = 0; h < hidden; ++h) y[h] = round_to<T>(to_f32(x[h]) * scale * gain[h]);
    }
  });
}

}  // namespace rose::ref
