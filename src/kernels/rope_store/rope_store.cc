#include "kernels/rope_store/rope_store.h"

#include <cmath>

#include "kernels/ref.h"
#include "kernels/ref_math.h"

namespace rose::ref {

namespace {

template <class T>
void rotate(T* x, int half, const float* cos, const float* sin) {
  for (int k = 0; k < half; ++k) {
    const double a = to_f32(x[k]), b = to_f32(x[k + half]);
    x[k] = round_to<T>(a * cos[k] - b * sin[k]);
    x[k + half] = round_to<T>(b * cos[k] + a * sin[k]);
  }
}

template <class T, class K>
void rotate_and_store(const RopeStore& op, int kv_heads) {
  const int dim = op.head_dim, half = dim / 2;
  const Batch& batch = *op.batch;
  const Tensor& table = batch.pages[int(op.kv.pool)];
  const int32_t* positions = batch.positions.as<int32_t>();
  const int32_t* sequence = batch.sequence.as<int32_t>();
  const float* frequency = op.rope.inverse_frequency.as<float>();
  std::vector<float> cos(static_cast<size_t>(half)), sin(static_cast<size_t>(half));

  for (int token = 0; token < batch.tokens; ++token) {
    const int position = positions[token];
    for (int k = 0; k < half; ++k) {
      const double angle = float(position) * frequency[k];  // a product of f32 numbers
      cos[size_t(k)] = to_f32(round_to<T>(std::cos(angle) * op.rope.concentration));
      sin[size_t(k)] = to_f32(round_to<T>(std::sin(angle) * op.rope.concentration));
    }

    T* row = op.qkv.as<T>() + int64_t(token) * (op.heads + 2 * kv_heads) * dim;
    for (int head = 0; head < op.heads + kv_heads; ++head)
      rotate(row + head * dim, half, cos.data(), sin.data());

    const Tensor entries = table.rows(sequence[token], 1);
    ROSE_CHECK(position / kPageSize < entries.dim(1),
               "rope_store: position %d, %d pages a sequence", position, entries.dim(1));
    const int page = entries.as<int32_t>()[position / kPageSize];
    K* to = op.kv.pages.rows(page, 1).as<K>() + position % kPageSize * dim;
    for (int head = 0; head < kv_heads; ++head) {
      const T* key = row + (op.heads + head) * dim;
      const T* value = key + kv_heads * dim;
      K* to_key = to + int64_t(head) * 2 * kPageSize * dim;
      K* to_value = to_key + kPageSize * dim;
      for (int d = 0; d < dim; ++d) {
        to_key[d] = from_f32<K>(to_f32(key[d]));
        to_value[d] = from_f32<K>(to_f32(value[d]));
      }
    }
  }
}

}  // namespace

void rope_store(Stream&, const RopeStore& op) {
  Dim tokens("tokens", op.batch->tokens), seqs("seqs", op.batch->seqs), width("page table width");
  Dim pages("pages"), kv_heads("kv_heads"), two("keys and values", 2);
  Dim page("page_size head_dim", kPageSize * op.head_dim), half("head_dim / 2", op.head_dim / 2);
  shape_check("rope_store", op.kv.pages, "kv.pages", {&pages, &kv_heads, &two, &page});
  Dim all("(heads + 2 kv_heads) head_dim", (op.heads + 2 * kv_heads) * op.head_dim);
  shape_check("rope_store", op.qkv, "qkv", {&tokens, &all});
  shape_check("rope_store", op.rope.inverse_frequency, "inverse_frequency", {&half});
  shape_check("rope_store", op.batch->positions, "positions", {&tokens});
  shape_check("rope_store", op.batch->sequence, "sequence", {&tokens});
  shape_check("rope_store", op.batch->pages[int(op.kv.pool)], "page table", {&seqs, &width});

  with_type_of(op.qkv, "rope_store", [&]<class T>(T) {
    with_type_of(op.kv.pages, "rope_store",
                 [&]<class K>(K) { rotate_and_store<T, K>(op, int(kv_heads)); });
  });
}

}  // namespace rose::ref
