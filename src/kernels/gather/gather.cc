#include "kernels/gather/gather.h"

#include <cstring>

#include "kernels/ref.h"

namespace rose::ref {

void gather(Stream&, const Gather& op) {
  Dim tokens("tokens"), hidden("hidden"), samples("samples");
  shape_check("gather", op.x, "x", {&tokens, &hidden});
  shape_check("gather", op.y, "y", {&samples, &hidden});
  shape_check("gather", op.rows, "rows", {&samples});
  ROSE_CHECK(op.x.dtype == op.y.dtype, "gather: %s into %s", show(op.x).c_str(),
             show(op.y).c_str());
  const int32_t* rows = op.rows.as<int32_t>();

  for (int i = 0; i < samples; ++i) {
    const Tensor from = op.x.rows(rows[i], 1);  // checks the row
    std::memcpy(op.y.rows(i, 1).data, from.data, size_t(from.bytes()));
  }
}

}  // namespace rose::ref
