#include "kernels/rope_store/rope_store.h"

#include "testing/paging.h"

namespace rose {
namespace {

using namespace testing;

struct RopeProblem {
  int heads, kv_heads, head_dim;
  std::vector<Slice> slices;
  Pool pool = Pool::full;
  int window = 128;
  float concentration = 1.25f;
};

struct Stored {
  Values queries;  // [tokens, heads head_dim]
  Values pages;
};

// The inputs before the rotation, row by row.
std::vector<float> inputs(const RopeProblem& p, int tokens) {
  std::vector<float> x;
  for (int i = 0; i < tokens * (p.heads + 2 * p.kv_heads) * p.head_dim; ++i)
    x.push_back(normal_number(1, uint64_t(i)));
  return x;
}

Stored stored(const Ops& ops, const RopeProblem& p, DType type, DType kv) {
  Rig rig(ops);
  const Paging paging(p.slices, p.window, 5);
  const Batch batch = paging.step(rig, p.slices);
  const int width = (p.heads + 2 * p.kv_heads) * p.head_dim;
  const Tensor qkv = rig.put(type, {batch.tokens, width}, inputs(p, batch.tokens));
  const Tensor pages =
      rig.uniform(kv, {paging.pages(), p.kv_heads, 2, kPageSize * p.head_dim}, 9, 0, 0);
  std::vector<float> frequency;
  for (int k = 0; k < p.head_dim / 2; ++k)
    frequency.push_back(std::pow(150000.0f, -2.0f * float(k) / float(p.head_dim)));
  rig.run(ops.rope_store,
          RopeStore{.qkv = qkv,
                    .kv = {pages, p.pool},
                    .batch = &batch,
                    .rope = {rig.put(DType::f32, {p.head_dim / 2}, frequency), p.concentration},
                    .heads = p.heads,
                    .head_dim = p.head_dim});
  const Values all = rig.read(qkv);
  Values queries = {{batch.tokens, p.heads * p.head_dim}, {}};
  for (int token = 0; token < batch.tokens; ++token)
    queries.at.insert(queries.at.end(), all.at.begin() + token * width,
                      all.at.begin() + token * width + p.heads * p.head_dim);
  return {queries, rig.read(pages)};
}

// One pair, a quarter turn and the concentration: (a, b) -> 2 (a cos - b sin, b cos + a sin).
TEST(RopeStore, by_hand) {
  Rig rig(reference_ops());
  const Batch batch = Paging(1, 1, 128, 1).step(rig, {{0, 0, 1}});
  Batch moved = batch;
  moved.positions = rig.put(DType::i32, {1}, {1});
  const Tensor qkv = rig.put(DType::f32, {1, 6}, {3, 5, 7, 11, 13, 17});
  const Tensor pages = rig.uniform(DType::f32, {2, 1, 2, kPageSize * 2}, 1, 0, 0);
  const float quarter = 1.57079632679f;
  rig.run(rig.ops().rope_store, RopeStore{.qkv = qkv,
                                          .kv = {pages, Pool::full},
                                          .batch = &moved,
                                          .rope = {rig.put(DType::f32, {1}, {quarter}), 2},
                                          .heads = 1,
                                          .head_dim = 2});
  const Tolerance tolerance = {.absolute = 1e-5};
  Values got = rig.read(qkv);
  got.at.resize(2);
  got.dims = {2};
  EXPECT_TRUE(close(got, {{2}, {-10, 6}}, tolerance));
  // Page 1, row 1: the key rotated, the value as it was; nothing anywhere else.
  Values want = {{2, 1, 2, kPageSize * 2}, std::vector<float>(2 * 2 * kPageSize * 2)};
  float* page = want.at.data() + 2 * kPageSize * 2;
  page[2] = -22, page[3] = 14;
  page[kPageSize * 2 + 2] = 13, page[kPageSize * 2 + 3] = 17;
  EXPECT_TRUE(close(rig.read(pages), want, tolerance));
}

// The published example: x[i] = i + 1, position 3.
TEST(RopeStore, pairs_are_halves_of_a_head) {
  Rig rig(reference_ops());
  const Batch batch = Paging(1, 4, 128, 1).step(rig, {{0, 3, 1}});
  std::vector<float> x(3 * 64), frequency;
  for (int i = 0; i < 64; ++i) x[size_t(i)] = float(i + 1);
  // YaRN's for these pairs; the others are not looked at.
  frequency.assign(32, 0);
  frequency[0] = 1, frequency[1] = 6.890443059e-01f, frequency[9] = 3.170569618e-02f;
  frequency[31] = 3.023511428e-07f;
  const Tensor qkv = rig.put(DType::f32, {1, 3 * 64}, x);
  rig.run(rig.ops().rope_store,
          RopeStore{.qkv = qkv,
                    .kv = {rig.empty(DType::f32, {2, 1, 2, kPageSize * 64}), Pool::full},
                    .batch = &batch,
                    .rope = {rig.put(DType::f32, {32}, frequency), 1.3465735902799727f},
                    .heads = 1,
                    .head_dim = 64});
  const std::vector<float> y = rig.read(qkv).at;
  const Values got = {{8}, {y[0], y[1], y[9], y[31], y[32], y[33], y[41], y[63]}};
  const Values want = {{8},
                       {-7.604037f, -41.541441f, 8.033525f, 43.090277f, -43.802197f, -19.434269f,
                        57.579336f, 86.180749f}};
  EXPECT_TRUE(close(got, want, {.absolute = 2e-5}));
}

// Decoding, chunks, several sequences, page borders, both pools, the models' own heads, long positions.
TEST(RopeStore, backends_agree_with_the_reference) {
  const RopeProblem kProblems[] = {
      {2, 1, 8, {{0, 0, 1}}},
      {4, 2, 16, {{0, 60, 9}, {1, 0, 3}}},
      {16, 2, 64, {{0, 0, 70}, {2, 127, 1}, {1, 63, 2}}, Pool::sliding},
      {64, 8, 64, {{1, 300, 3}, {0, 5, 1}}, Pool::sliding},
      {4, 1, 64, {{0, 5000, 2}}},
      {3, 1, 6, {{0, 3, 4}}},
  };
  const std::pair<DType, DType> kTypes[] = {
      {DType::f32, DType::f32}, {DType::f32, DType::bf16}, {DType::bf16, DType::bf16}};
  for (const Ops* ops : backends())
    for (const auto& [type, kv] : kTypes)
      for (const RopeProblem& p : kProblems) {
        SCOPED_TRACE(strf("%s %s kv=%s heads=%d/%d head_dim=%d", ops->name, name_of(type),
                          name_of(kv), p.heads, p.kv_heads, p.head_dim));
        // The functions cos and sin are good to two units of f32, so a rounded one may be a unit of bf16
        // apart; either moves (a cos - b sin) by that much of |a| + |b|, times the concentration.
        float size = 0;
        for (const float x : inputs(p, 80)) size = std::max(size, std::fabs(x));
        const double unit = type == DType::bf16 ? 0x1p-7 : 0x1p-22;
        const Tolerance queries = {.absolute = 2.0 * double(size) * 1.25 * unit,
                                   .relative = Tolerance::rounding(type).relative};
        const Tolerance pages = {.absolute = queries.absolute,
                                 .relative = Tolerance::rounding(kv).relative};
        const Stored got = stored(*ops, p, type, kv), want = stored(reference_ops(), p, type, kv);
        EXPECT_TRUE(close(got.queries, want.queries, queries));
        EXPECT_TRUE(close(got.pages, want.pages, pages));
      }
}

}  // namespace
}  // namespace rose
