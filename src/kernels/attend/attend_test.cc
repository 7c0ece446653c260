#include "kernels/attend/attend.h"

#include "tensor/bf16.h"
#include "testing/paging.h"

namespace rose {
namespace {

using namespace testing;

struct AttendProblem {
  int heads, kv_heads, head_dim;
  std::vector<Slice> slices;
  int window = kEveryKey;
  Pool pool = Pool::full;
  float query_size = 1;
};

// The result, or with `magnitudes` the sum of p |v|.
Values attended(const Ops& ops, const AttendProblem& p, DType type, DType kv,
                bool magnitudes = false) {
  Rig rig(ops);
  const Paging paging(p.slices, p.window, 5);
  const Batch batch = paging.step(rig, p.slices);
  std::vector<float> pages;
  const int part = kPageSize * p.head_dim;
  for (int i = 0; i < paging.pages() * p.kv_heads * 2 * part; ++i) {
    const float x = normal_number(2, uint64_t(i));
    pages.push_back(magnitudes && i / part % 2 == 1 ? std::fabs(x) : x);
  }
  // What is in no table must not be read: NaN would show.
  std::fill_n(pages.begin(), p.kv_heads * 2 * part, std::numeric_limits<float>::quiet_NaN());
  const Tensor y = rig.empty(magnitudes ? DType::f32 : type, {batch.tokens, p.heads * p.head_dim});
  const Tensor qkv =
      rig.normal(type, {batch.tokens, (p.heads + 2 * p.kv_heads) * p.head_dim}, 1, p.query_size);
  const Attend op = {.y = magnitudes ? rig.empty(type, {batch.tokens, p.heads * p.head_dim}) : y,
                     .qkv = qkv,
                     .kv = {rig.put(kv, {paging.pages(), p.kv_heads, 2, part}, pages), p.pool},
                     .batch = &batch,
                     .sinks = rig.normal(DType::f32, {p.heads}, 3, 2),
                     .window = p.window,
                     .heads = p.heads,
                     .head_dim = p.head_dim,
                     .scale = 1 / std::sqrt(float(p.head_dim))};
  rig.run(ops.attend, op);
  return rig.read(op.y);
}

// Three keys in one page; the weights were worked out by hand: .551225446 .122995022 .122995022.
TEST(Attend, by_hand) {
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    Rig rig(*ops);
    const Paging paging(1, 3, 128, 1);
    const Batch batch = paging.step(rig, {{0, 2, 1}});
    std::vector<float> pages(2 * 2 * kPageSize * 4);
    float* keys = pages.data() + 2 * kPageSize * 4;
    float* values = keys + kPageSize * 4;
    const float k[3][4] = {{1, 1, 1, 1}, {0, 1, 0, 1}, {2, 0, -1, 0}};
    const float v[3][4] = {{1, 0}, {0, 1}, {2, 2}};
    std::copy_n(&k[0][0], 12, keys);
    std::copy_n(&v[0][0], 12, values);
    const Tensor y = rig.empty(DType::f32, {1, 4});
    rig.run(ops->attend,
            Attend{.y = y,
                   .qkv = rig.put(DType::f32, {1, 12}, {1, 0, 2, 0, 9, 9, 9, 9, 9, 9, 9, 9}),
                   .kv = {rig.put(DType::f32, {2, 1, 2, kPageSize * 4}, pages), Pool::full},
                   .batch = &batch,
                   .sinks = rig.put(DType::f32, {1}, {.5f}),
                   .heads = 1,
                   .head_dim = 4,
                   .scale = .5f});
    const Values want = {{1, 4}, {.797215491f, .368985066f, 0, 0}};
    EXPECT_TRUE(close(rig.read(y), want, {.absolute = 1e-6}));
  }
}

// With all scores equal, a key's weight is 1 / (keys + e^sink): the result tells which keys were seen.
TEST(Attend, the_window_holds_exactly_its_keys) {
  for (const Ops* ops : available_ops())
    for (const int window : {1, 4, 64, 128, kEveryKey})
      for (const int position : {0, 3, 63, 64, 127, 128, 200}) {
        SCOPED_TRACE(strf("%s window=%d position=%d", ops->name, window, position));
        Rig rig(*ops);
        const Paging paging(1, position + 1, window, 1);
        const Batch batch = paging.step(rig, {{0, position, 1}});
        // Values are powers apart: one for a key is counted, and the sum of positions seen.
        std::vector<float> pages(size_t(paging.pages()) * 2 * kPageSize * 2);
        Batch each = batch;  // where a position lies: through the table, as an op finds it
        const std::vector<float> table = rig.read(each.pages[int(Pool::sliding)]).at;
        for (int j = std::max(0, position - (window == kEveryKey ? position : window - 1));
             j <= position; ++j) {
          const size_t page = size_t(table[size_t(j / kPageSize)]);
          float* value = pages.data() + (page * 2 + 1) * kPageSize * 2 + j % kPageSize * 2;
          value[0] = 1;
          value[1] = float(j);
        }
        const Tensor y = rig.empty(DType::f32, {1, 2});
        rig.run(ops->attend,
                Attend{.y = y,
                       .qkv = rig.put(DType::f32, {1, 6}, {0, 0, 0, 0, 0, 0}),
                       .kv = {rig.put(DType::f32, {paging.pages(), 1, 2, kPageSize * 2}, pages),
                              Pool::sliding},
                       .batch = &batch,
                       .sinks = rig.put(DType::f32, {1}, {0}),
                       .window = window,
                       .heads = 1,
                       .head_dim = 2});
        const int first = window > position ? 0 : position - window + 1;
        const float keys = float(position - first + 1);
        const Values want = {{1, 2},
                             {keys / (keys + 1), keys * float(first + position) / 2 / (keys + 1)}};
        EXPECT_TRUE(close(rig.read(y), want, {.relative = 1e-5}));
      }
}

// Decoding and chunks, borders of pages and of the window, several sequences, the models' heads, large
// scores.
TEST(Attend, backends_agree_with_the_reference) {
  const AttendProblem kProblems[] = {
      {1, 1, 64, {{0, 0, 1}}},
      {4, 2, 16, {{0, 0, 10}}, 4, Pool::sliding},
      {16, 2, 64, {{0, 0, 70}}, 128, Pool::sliding},
      {16, 2, 64, {{0, 100, 3}, {1, 0, 65}, {2, 191, 1}}},
      {16, 2, 64, {{0, 100, 33}, {1, 0, 65}, {2, 255, 1}}, 128, Pool::sliding},
      {64, 8, 64, {{0, 500, 1}, {1, 63, 1}, {2, 64, 1}, {3, 0, 1}}},
      {64, 8, 64, {{0, 300, 2}}, 128, Pool::sliding},
      {8, 8, 64, {{0, 40, 5}}},
      {16, 2, 64, {{0, 130, 4}}, kEveryKey, Pool::full, 20},
      {3, 1, 8, {{0, 10, 2}}},
  };
  const std::pair<DType, DType> kTypes[] = {
      {DType::f32, DType::f32}, {DType::f32, DType::bf16}, {DType::bf16, DType::bf16}};
  for (const auto& [type, kv] : kTypes)
    for (const AttendProblem& p : kProblems) {
      const int longest = longest_of(p.slices);
      // A score's error: of a sum of head_dim products. Norms of normal vectors are near
      // sqrt(head_dim); 2.5 times that is above all of them, for query and key each.
      const double norms = 6.25 * p.head_dim * double(p.query_size);
      const double score = Tolerance::dot(p.head_dim) * norms / std::sqrt(p.head_dim) + 0x1p-22;
      // It moves a weight e^score by that share, and the total likewise; then a sum over the keys.
      Values bound = attended(reference_ops(), p, type, kv, true);
      // A backend may round the weights to bf16 before they meet bf16 values: by up to 2^-9 each, and they
      // add up to 1 at most.
      const double weight = type == DType::bf16 && kv == DType::bf16 ? 0x1p-8 : 0;
      for (float& value : bound.at)
        value *= float(2 * score + 2 * Tolerance::dot(longest) + weight);
      const Values want = attended(reference_ops(), p, type, kv);
      for (const Ops* ops : backends()) {
        SCOPED_TRACE(strf("%s %s kv=%s heads=%d/%d head_dim=%d window=%d", ops->name, name_of(type),
                          name_of(kv), p.heads, p.kv_heads, p.head_dim, p.window));
        EXPECT_TRUE(close(attended(*ops, p, type, kv), want, bound, Tolerance::rounding(type)));
      }
    }
}

TEST(Attend, a_token_does_not_depend_on_its_neighbours) {
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    const auto rows = [&](std::vector<Slice> slices) {
      // The last token of a chunk and the same token alone: its query must be the same numbers.
      Rig rig(*ops);
      const Paging paging(2, 200, 128, 5);
      const Batch batch = paging.step(rig, slices);
      std::vector<float> qkv;
      for (const Slice& slice : slices)
        for (int i = slice.first; i < slice.first + slice.count; ++i)
          for (int c = 0; c < 20 * 64; ++c)
            qkv.push_back(normal_number(1, uint64_t((slice.seq * 200 + i) * 20 * 64 + c)));
      const Tensor y = rig.empty(DType::f32, {batch.tokens, 16 * 64});
      rig.run(ops->attend,
              Attend{.y = y,
                     .qkv = rig.put(DType::f32, {batch.tokens, 20 * 64}, qkv),
                     .kv = {rig.normal(DType::bf16, {paging.pages(), 2, 2, kPageSize * 64}, 2),
                            Pool::full},
                     .batch = &batch,
                     .sinks = rig.normal(DType::f32, {16}, 3),
                     .heads = 16,
                     .head_dim = 64,
                     .scale = .125f});
      return rig.read(y.rows(batch.tokens - 1, 1));
    };
    const Values alone = rows({{0, 150, 1}});
    EXPECT_TRUE(close(rows({{1, 3, 1}, {0, 150, 1}}), alone));
    EXPECT_TRUE(close(rows({{0, 90, 61}}), alone));
  }
}

// With `rope`, the same as rotating and storing first: sequences that feed one token each (decoding), with a
// page that has just begun and one that is full, several tokens a sequence, prompts, the window.
TEST(Attend, rotates_and_stores_first) {
  const AttendProblem kProblems[] = {
      {4, 2, 16, {{0, 60, 1}}},
      {64, 8, 64, {{0, 300, 1}, {1, 64, 1}, {2, 63, 1}, {3, 0, 1}}},
      {64, 8, 64, {{0, 300, 1}, {1, 7, 1}}, 128, Pool::sliding},
      {64, 8, 64, {{0, 2500, 1}}},
      {24, 2, 64, {{0, 77, 1}, {1, 191, 1}}},
      {16, 2, 64, {{0, 130, 2}, {1, 10, 1}}},
      {16, 2, 64, {{1, 20, 40}, {0, 5, 9}}},
  };
  for (const Ops* ops : backends())
    for (const auto& [type, kv] : {std::pair(DType::f32, DType::bf16), {DType::bf16, DType::bf16}})
      for (const AttendProblem& p : kProblems) {
        SCOPED_TRACE(strf("%s %s kv=%s heads=%d/%d head_dim=%d window=%d", ops->name, name_of(type),
                          name_of(kv), p.heads, p.kv_heads, p.head_dim, p.window));
        const Paging paging(p.slices, p.window, 5);
        std::vector<float> frequency;
        for (int k = 0; k < p.head_dim / 2; ++k)
          frequency.push_back(std::pow(150000.0f, -2.0f * float(k) / float(p.head_dim)));
        const auto attended = [&](bool at_once) {
          Rig rig(*ops);
          const Batch batch = paging.step(rig, p.slices);
          const int heads = p.heads + 2 * p.kv_heads;
          Attend op = {
              .y = rig.empty(type, {batch.tokens, p.heads * p.head_dim}),
              .qkv = rig.normal(type, {batch.tokens, heads * p.head_dim}, 1),
              .kv = {rig.normal(kv, {paging.pages(), p.kv_heads, 2, kPageSize * p.head_dim}, 2),
                     p.pool},
              .batch = &batch,
              .sinks = rig.normal(DType::f32, {p.heads}, 3),
              .window = p.window,
              .heads = p.heads,
              .head_dim = p.head_dim,
              .scale = .125f,
              .rope = {rig.put(DType::f32, {p.head_dim / 2}, frequency), 1.25f}};
          if (!at_once) {
            rig.run(ops->rope_store, rope_store_of(op));
            op.rope = {};
          }
          rig.run(ops->attend, op);
          return std::pair(rig.read(op.y), rig.read(op.kv.pages));
        };
        const auto [y, pages] = attended(true);
        const auto [want_y, want_pages] = attended(false);
        EXPECT_TRUE(close(y, want_y, Tolerance::rounding(type)));
        EXPECT_TRUE(close(pages, want_pages, Tolerance::rounding(kv)));
      }
}

}  // namespace
}  // namespace rose
