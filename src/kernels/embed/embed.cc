#include "kernels/embed/embed.h"

#include <algorithm>

#include "kernels/ref.h"
#include "kernels/ref_math.h"

namespace rose::ref {

void embed(Stream&, const Embed& op) {
  Dim tokens("tokens"), hidden("hidden"), vocab("vocab");
  shape_check("embed", op.y, "y", {&tokens, &hidden});
  shape_check("embed", op.token_ids, "token_ids", {&tokens});
  shape_check("embed", op.table, "table", {&vocab, &hidden});
  const int32_t* ids = op.token_ids.as<int32_t>();

  with_type_of(op.y, "embed", [&]<class T>(T) {
    for (int token = 0; token < tokens; ++token) {
      int id = ids[token];
      if (id < 0) {
        ROSE_CHECK(op.newest && ~id < op.newest.elements(), "embed: token %d is unknown", token);
        id = std::max(op.newest.as<int32_t>()[~id], 0);
      }
      ROSE_CHECK(id < vocab, "embed: token id %d, the table has %ld", id, long(vocab));
      const bf16* from = op.table.as<bf16>() + id * hidden.size;
      T* y = op.y.as<T>() + token * hidden.size;
      for (int h = 0; h < hidden; ++h) y[h] = from_f32<T>(to_f32(from[h]));
    }
  });
}

}  // namespace rose::ref
