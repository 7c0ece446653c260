#include <vector>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/share.h"
#include "kernels/rms_norm/rms_norm.h"

namespace rose::cpu {

void rms_norm(const Kernels& kernels, Stream& stream, const RmsNorm& op) {
  Dim tokens("tokens"), terms("terms"), hidden("hidden");
  shape_check("rms_norm", op.x, "x", {&tokens, &hidden});
  shape_check("rms_norm", op.y, "y", {&tokens, &hidden});
  shape_check("rms_norm", op.gain, "gain", {&hidden});
  if (op.add) {
    shape_check("rms_norm", op.add, "add", {&tokens, &terms, &hidden});
    shape_check("rms_norm", op.weights, "weights", {&tokens, &terms});
  }
  activation_check("rms_norm", op.x, "x");
  ROSE_CHECK(op.y.dtype == op.x.dtype && (!op.add || op.add.dtype == op.x.dtype),
             "rms_norm: y is %s, x is %s", show(op.y).c_str(), show(op.x).c_str());

  share(stream, tokens, 1, double(hidden) * 0.3, [&](int64_t begin, int64_t end, int) {
    std::vector<Row> rows(op.add ? size_t(terms.size) : 0);
    for (int64_t token = begin; token < end; ++token) {
      const Row y = row_of(op.y, token);
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = row_of(op.add, token * terms + int64_t(i));
      if (op.add)  // to be overwritten by the norm
        kernels.combine(rows.data(), op.weights.as<float>() + token * terms, int(terms),
                        int(hidden), y);
      kernels.rms_norm({
          .y = y,
          .x = row_of(op.x, token),
          .add = op.add ? y.data : nullptr,
          .gain = op.gain.as<float>(),
          .hidden = int(hidden),
          .eps = op.eps,
      });
    }
  });
}

}  // namespace rose::cpu
