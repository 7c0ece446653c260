#include "kernels/attend/attend.h"

#include <algorithm>
#include <cmath>

#include "kernels/ref.h"
#include "kernels/ref_math.h"

namespace rose::ref {

namespace {

// One token against one kv head: the query heads that read it are the lanes.
template <class T, class K>
class Group {
 public:
  Group(const Attend& op, int kv_heads)
      : op_(op), kv_heads_(kv_heads), query_(size_t(op.head_dim)), sum_(size_t(op.head_dim)) {}

  void run(int token, int kv_head, int first_head, int heads) {
    const int dim = op_.head_dim;
    const int position = op_.batch->positions.as<int32_t>()[token];
    const int first = int(std::max<int64_t>(0, int64_t(position) - op_.window + 1));
    const T* q =
        op_.qkv.as<T>() + (int64_t(token) * (op_.heads + 2 * kv_heads_) + first_head) * dim;
    for (int d = 0; d < dim; ++d)
      for (int lane = 0; lane < heads; ++lane)
        query_[size_t(d)].at[lane] = to_f32(q[lane * dim + d]);

    Lanes largest;
    const float* sinks = op_.sinks.as<float>() + first_head;
    for (int lane = 0; lane < heads; ++lane) largest.at[lane] = sinks[lane];
    scores_.assign(size_t(position - first + 1), {});
    for (int j = first; j <= position; ++j) {
      Lanes& score = scores_[size_t(j - first)];
      const K* key = row(token, kv_head, j, 0);
      for (int d = 0; d < dim; ++d) add_product(score, to_f32(key[d]), query_[size_t(d)]);
      for (int lane = 0; lane < heads; ++lane) {
        score.at[lane] *= op_.scale;
        largest.at[lane] = std::max(largest.at[lane], score.at[lane]);
      }
    }

    Lanes total;
    for (int lane = 0; lane < heads; ++lane)
      total.at[lane] = std::exp(sinks[lane] - largest.at[lane]);
    sum_.assign(size_t(dim), {});
    for (int j = first; j <= position; ++j) {
      Lanes p = scores_[size_t(j - first)];
      for (int lane = 0; lane < heads; ++lane) {
        p.at[lane] = std::exp(p.at[lane] - largest.at[lane]);
        total.at[lane] += p.at[lane];
      }
      const K* value = row(token, kv_head, j, 1);
      for (int d = 0; d < dim; ++d) add_product(sum_[size_t(d)], to_f32(value[d]), p);
    }

    T* y = op_.y.as<T>() + (int64_t(token) * op_.heads + first_head) * dim;
    for (int lane = 0; lane < heads; ++lane)
      for (int d = 0; d < dim; ++d)
        y[lane * dim + d] = round_to<T>(sum_[size_t(d)].at[lane] / total.at[lane]);
  }

 private:
  // The key (part 0) or value (part 1) of a position of the token's sequence.
  const K* row(int token, int kv_head, int position, int part) const {
    const Tensor& table = op_.batch->pages[int(op_.kv.pool)];
    const int sequence = op_.batch->sequence.as<int32_t>()[token];
    const int page = table.as<int32_t>()[int64_t(sequence) * table.dim(1) + position / kPageSize];
    ROSE_CHECK(page >= 0 && page < op_.kv.pages.dim(0),
               "attend: position %d of sequence %d is in page %d of %d", position, sequence, page,
               op_.kv.pages.dim(0));
    return op_.kv.pages.as<K>() +
           ((int64_t(page) * kv_heads_ + kv_head) * 2 + part) * kPageSize * op_.head_dim +
           position % kPageSize * op_.head_dim;
  }

  const Attend& op_;
  int kv_heads_;
  std::vector<Lanes> query_;   // [head_dim]
  std::vector<Lanes> scores_;  // [keys]
  std::vector<Lanes> sum_;     // [head_dim]
};

}  // namespace

void attend(Stream& stream, const Attend& op) {
  if (op.rope.inverse_frequency) rope_store(stream, rope_store_of(op));
  Dim tokens("tokens", op.batch->tokens), seqs("seqs", op.batch->seqs), width("page table width");
  Dim pages("pages"), kv_heads("kv_heads"), two("keys and values", 2), heads("heads", op.heads);
  Dim page("page_size head_dim", kPageSize * op.head_dim),
      q("heads head_dim", op.heads * op.head_dim);
  shape_check("attend", op.kv.pages, "kv.pages", {&pages, &kv_heads, &two, &page});
  Dim all("(heads + 2 kv_heads) head_dim", (op.heads + 2 * kv_heads) * op.head_dim);
  shape_check("attend", op.y, "y", {&tokens, &q});
  shape_check("attend", op.qkv, "qkv", {&tokens, &all});
  shape_check("attend", op.sinks, "sinks", {&heads});
  shape_check("attend", op.batch->positions, "positions", {&tokens});
  shape_check("attend", op.batch->sequence, "sequence", {&tokens});
  shape_check("attend", op.batch->pages[int(op.kv.pool)], "page table", {&seqs, &width});
  ROSE_CHECK(op.heads % kv_heads == 0, "attend: %d heads on %ld kv heads", op.heads,
             long(kv_heads));
  const int group = op.heads / int(kv_heads);

  with_type_of(op.qkv, "attend", [&]<class T>(T) {
    with_type_of(op.kv.pages, "attend", [&]<class K>(K) {
      stream.threads->parallel_for(int64_t(tokens) * kv_heads, 1, [&](int64_t begin, int64_t end) {
        Group<T, K> one(op, int(kv_heads));
        for (int64_t i = begin; i < end; ++i)
          for (int lane = 0; lane < group; lane += kLanes) {
            const int kv_head = int(i % kv_heads);
            one.run(int(i / kv_heads), kv_head, kv_head * group + lane,
                    std::min(kLanes, group - lane));
          }
      });
    });
  });
}

}  // namespace rose::ref
