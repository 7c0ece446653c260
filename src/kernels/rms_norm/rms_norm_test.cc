#include "kernels/rms_norm/rms_norm.h"

#include "base/rng.h"
#include "tensor/bf16.h"
#include "testing/rig.h"

namespace rose {
namespace {

using namespace testing;

TEST(RmsNorm, the_formula_by_hand) {
  Rig rig(reference_ops());
  const Tensor x = rig.put(DType::f32, {1, 4}, {1, -2, 3, .5});
  const Tensor y = rig.empty(DType::f32, {1, 4});
  rig.run(rig.ops().rms_norm,
          RmsNorm{.y = y, .x = x, .gain = rig.put(DType::f32, {4}, {1, .5, 2, 1}), .eps = 1e-5f});
  const Values want = {{1, 4}, {.529812199, -.529812199, 3.178873195, .264906100}};
  EXPECT_TRUE(close(rig.read(y), want, {.relative = 1e-7}));
}

// 1 + 1/256 is no bf16: the sum is rounded before it is kept, and the norm is of what is kept.
TEST(RmsNorm, normalises_the_rounded_sum) {
  Rig rig(reference_ops());
  const Tensor x = rig.put(DType::bf16, {1, 2}, {1, 0});
  const Tensor y = rig.empty(DType::bf16, {1, 2});
  rig.run(rig.ops().rms_norm, RmsNorm{.y = y,
                                      .x = x,
                                      .add = rig.put(DType::bf16, {1, 1, 2}, {0x1p-8f, 1}),
                                      .weights = rig.put(DType::f32, {1, 1}, {1}),
                                      .gain = rig.put(DType::f32, {2}, {1, 1}),
                                      .eps = 0});
  EXPECT_EQ(rig.read(x).at, (std::vector<float>{1, 1}));
  EXPECT_EQ(rig.read(y).at, (std::vector<float>{1, 1}));
}

// 1 + 2^-8 and 321 are no bf16: the sum of the terms is rounded before it is added.
TEST(RmsNorm, weighs_and_rounds_what_is_added) {
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    Rig rig(*ops);
    const Tensor x = rig.put(DType::bf16, {2, 1}, {-1, 4});
    rig.run(ops->rms_norm,
            RmsNorm{.y = rig.empty(DType::bf16, {2, 1}),
                    .x = x,
                    .add = rig.put(DType::bf16, {2, 3, 1}, {2, 1, 8, 1, 2, 3}),
                    .weights = rig.put(DType::f32, {2, 3}, {.5f, 0x1p-8f, 0, 1, 10, 100}),
                    .gain = rig.put(DType::f32, {1}, {1})});
    EXPECT_EQ(rig.read(x).at, (std::vector<float>{0, 324}));
  }
}

// A row shorter than a block, one trip, a ragged last trip, the models' own widths, no tokens; and rows
// so small that eps counts.
TEST(RmsNorm, backends_agree_with_the_reference) {
  constexpr int kShapes[][2] = {{1, 8}, {3, 192}, {2, 2056}, {5, 331}, {70, 2880}, {0, 2880}};
  for (const Ops* ops : backends())
    for (const DType type : {DType::f32, DType::bf16})
      for (const auto& [tokens, hidden] : kShapes)
        for (const float size : {1.0f, 0x1p-10f})
          for (const int terms : {0, 1, 4, 5}) {
            SCOPED_TRACE(strf("%s %s [%d, %d] size=%g terms=%d", ops->name, name_of(type), tokens,
                              hidden, double(size), terms));
            const auto normed = [&, tokens = tokens, hidden = hidden](const Ops& on) {
              Rig rig(on);
              const Tensor x = rig.normal(type, {tokens, hidden}, 1, size);
              const Tensor y = rig.empty(type, {tokens, hidden});
              RmsNorm op = {.y = y, .x = x, .gain = rig.normal(DType::f32, {hidden}, 3)};
              // Multiples of size / 64: sums are exact in any order.
              std::vector<float> add, weights;
              for (int i = 0; i < tokens * terms * hidden; ++i)
                add.push_back(size * float(int(random_bits(2, uint64_t(i)) % 33) - 16) / 16);
              for (int i = 0; i < tokens * terms; ++i)
                weights.push_back(float(random_bits(4, uint64_t(i)) % 5) / 4);
              if (terms > 0) {
                op.add = rig.put(type, {tokens, terms, hidden}, add);
                op.weights = rig.put(DType::f32, {tokens, terms}, weights);
              }
              rig.run(on.rms_norm, op);
              return std::pair(rig.read(x), rig.read(y));
            };
            const auto [x, y] = normed(*ops);
            const auto [want_x, want_y] = normed(reference_ops());
            EXPECT_TRUE(close(x, want_x));  // one f32 addition, one rounding: bit for bit
            // The mean of squares is a sum in f32; its root halves the relative error.
            Tolerance tolerance = Tolerance::rounding(type);
            tolerance.relative += Tolerance::dot(hidden) / 2;
            EXPECT_TRUE(close(y, want_y, tolerance));
          }
}

TEST(RmsNorm, a_row_does_not_depend_on_its_neighbours) {
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    Rig rig(*ops);
    const Tensor x = rig.normal(DType::f32, {9, 192}, 1);
    const Tensor gain = rig.normal(DType::f32, {192}, 2);
    const Tensor together = rig.empty(DType::f32, {9, 192}),
                 alone = rig.empty(DType::f32, {9, 192});
    rig.run(ops->rms_norm, RmsNorm{.y = together, .x = x, .gain = gain});
    for (int i = 0; i < 9; ++i)
      rig.run(ops->rms_norm, RmsNorm{.y = alone.rows(i, 1), .x = x.rows(i, 1), .gain = gain});
    EXPECT_TRUE(close(rig.read(together), rig.read(alone)));
  }
}

}  // namespace
}  // namespace rose
