#include "kernels/rms_norm/rms_norm.h"

#include <cmath>

#include "kernels/ref.h"
#include "kernels/ref_math.h"

namespace rose::ref {

void rms_norm(Stream&, const RmsNorm& op) {
  Dim tokens("tokens"), hidden("hidden");
  shape_check("rms_norm", op.x, "x", {&tokens, &hidden});
  shape_check("rms_norm", op.y, "y", {&tokens, &hidden});
  shape_check("rms_norm", op.gain, "gain", {&hidden});
  if (op.add) shape_check("rms_norm", op.add, "add", {&tokens, &hidden});
  const float* gain = op.gain.as<float>();

  with_type_of(op.x, "rms_norm", [&]<class T>(T) {
    for (int token = 0; token < tokens; ++token) {
      T* x = op.x.as<T>() + token * hidden.size;
      T* y = op.y.as<T>() + token * hidden.size;
      const T* add = op.add ? op.add.as<T>() + token * hidden.size : nullptr;

      double sum = 0;
      for (int h = 0; h < hidden; ++h) {
        if (add) x[h] = from_f32<T>(to_f32(x[h]) + to_f32(add[h]));
        sum += double(to_f32(x[h])) * to_f32(x[h]);
      }
      const double scale = 1 / std::sqrt(sum / double(hidden) + double(op.eps));
      for (int h = 0; h < hidden; ++h) y[h] = round_to<T>(to_f32(x[h]) * scale * gain[h]);
    }
  });
}

}  // namespace rose::ref
