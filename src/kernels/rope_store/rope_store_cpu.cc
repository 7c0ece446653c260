#include <vector>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/share.h"
#include "kernels/rope_store/rope_store.h"
#include "tensor/bf16.h"

namespace rose::cpu {

void rope_store(const Kernels& kernels, Stream& stream, const RopeStore& op) {
  const Batch& batch = *op.batch;
  const Tensor& table = batch.pages[int(op.kv.pool)];
  Dim tokens("tokens", batch.tokens), seqs("seqs", batch.seqs), width("page table width");
  Dim pages("pages"), kv_heads("kv_heads"), two("keys and values", 2);
  Dim page_size("page_size head_dim", kPageSize * op.head_dim);
  Dim half("head_dim / 2", op.head_dim / 2);
  shape_check("rope_store", op.kv.pages, "kv.pages", {&pages, &kv_heads, &two, &page_size});
  Dim all("(heads + 2 kv_heads) head_dim", (op.heads + 2 * kv_heads) * op.head_dim);
  shape_check("rope_store", op.qkv, "qkv", {&tokens, &all});
  shape_check("rope_store", op.rope.inverse_frequency, "inverse_frequency", {&half});
  shape_check("rope_store", batch.positions, "positions", {&tokens});
  shape_check("rope_store", batch.sequence, "sequence", {&tokens});
  shape_check("rope_store", table, "page table", {&seqs, &width});
  activation_check("rope_store", op.qkv, "qkv");
  activation_check("rope_store", op.kv.pages, "kv.pages");
  const int dim = op.head_dim;
  const float* frequency = op.rope.inverse_frequency.as<float>();
  const bool round = op.qkv.dtype == DType::bf16;

  share(stream, tokens, 1, double(all), [&](int64_t begin, int64_t end, int) {
    std::vector<float> cos(static_cast<size_t>(half.size)), sin(static_cast<size_t>(half.size));
    for (int64_t token = begin; token < end; ++token) {
      const int position = batch.positions.as<int32_t>()[token];
      kernels.turn(position, frequency, int(half), op.rope.concentration, cos.data(), sin.data());
      if (round)
        for (size_t k = 0; k < cos.size(); ++k) {
          cos[k] = to_f32(to_bf16(cos[k]));
          sin[k] = to_f32(to_bf16(sin[k]));
        }
      kernels.rotate(row_of(op.qkv, token), op.heads + int(kv_heads), dim, cos.data(), sin.data());

      const int sequence = batch.sequence.as<int32_t>()[token];
      ROSE_CHECK(sequence >= 0 && sequence < seqs && position >= 0 && position / kPageSize < width,
                 "rope_store: position %d of sequence %d, %ld pages a sequence", position, sequence,
                 long(width));
      const int page = table.as<int32_t>()[sequence * width + position / kPageSize];
      ROSE_CHECK(page >= 0 && page < pages, "rope_store: position %d is in page %d of %ld",
                 position, page, long(pages));
      const int element_bytes = bytes_of(op.kv.pages.dtype);
      char* to = static_cast<char*>(op.kv.pages.data) +
                 (page * kv_heads * 2 * page_size + position % kPageSize * dim) * element_bytes;
      for (int64_t part = 0; part < 2 * kv_heads; ++part) {  // keys of all heads, then values
        const int64_t row = part < kv_heads ? part * 2 : (part - kv_heads) * 2 + 1;
        kernels.convert(part_of(op.qkv, token, (op.heads + part) * dim), dim,
                        {to + row * page_size * element_bytes, op.kv.pages.dtype == DType::bf16});
      }
    }
  });
}

}  // namespace rose::cpu
