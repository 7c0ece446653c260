#include "kernels/route/route.h"

#include "base/rng.h"
#include "testing/rig.h"

namespace rose {
namespace {

using namespace testing;

struct Routed {
  Values experts, weights;
};

// One token whose logits are given: through the bias.
Routed routed(const Ops& ops, DType type, const std::vector<float>& logits, int top_k) {
  Rig rig(ops);
  const int64_t count = int64_t(logits.size());
  const Tensor experts = rig.empty(DType::i32, {1, top_k}),
               weights = rig.empty(DType::f32, {1, top_k});
  rig.run(ops.route, Route{.experts = experts,
                           .weights = weights,
                           .x = rig.put(type, {1, 32}, std::vector<float>(32)),
                           .weight = rig.normal(DType::bf16, {count, 32}, 1),
                           .bias = rig.put(DType::f32, {count}, logits)});
  return {rig.read(experts), rig.read(weights)};
}

TEST(Route, by_hand) {
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    const auto [experts, weights] = routed(*ops, DType::f32, {1, 3, -2, 3, .5f, 2, 2.5f, -1}, 4);
    EXPECT_EQ(experts.at, (std::vector<float>{1, 3, 6, 5}));  // the lower of the equal ones first
    const Values want = {{1, 4}, {.33620112f, .33620112f, .20391629f, .12368148f}};
    EXPECT_TRUE(close(weights, want, {.relative = 1e-6}));
  }
}

// 1.001 and 1 are the same bf16, so the lower index wins; in f32 the larger does.
TEST(Route, logits_are_rounded_to_the_type_of_the_activations) {
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    EXPECT_EQ(routed(*ops, DType::bf16, {0, 1, 1.001f}, 2).experts.at, (std::vector<float>{1, 2}));
    EXPECT_EQ(routed(*ops, DType::f32, {0, 1, 1.001f}, 2).experts.at, (std::vector<float>{2, 1}));
    EXPECT_EQ(routed(*ops, DType::bf16, {0, 1, 2}, 2).weights.at[0], 0.73046875f);  // a bf16
  }
}

TEST(Route, broken_logits_still_give_experts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    const std::vector<float> chosen =
        routed(*ops, DType::f32, {nan, nan, nan, nan, nan}, 4).experts.at;
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(chosen[i] >= 0 && chosen[i] < 5) << chosen[i];
      for (size_t j = 0; j < i; ++j) EXPECT_NE(chosen[i], chosen[j]);
    }
  }
}

// Inputs whose sums are exact in f32 in any order (multiples of 2^-6, below 2^18 of them), so that every
// backend sees the same logits and must choose the same experts, ties included.
TEST(Route, backends_agree_with_the_reference) {
  constexpr int kShapes[][4] = {{1, 64, 4, 2},     {3, 192, 16, 4}, {70, 2880, 32, 4},
                                {5, 2880, 128, 4}, {2, 100, 5, 5},  {0, 64, 8, 2}};
  for (const Ops* ops : backends())
    for (const DType type : {DType::f32, DType::bf16})
      for (const auto& shape : kShapes) {
        const int tokens = shape[0], hidden = shape[1], count = shape[2], top_k = shape[3];
        SCOPED_TRACE(strf("%s %s [%d, %d] %d of %d", ops->name, name_of(type), tokens, hidden,
                          top_k, count));
        const auto grid = [](int64_t n, uint64_t key, float unit) {
          std::vector<float> values;
          for (int64_t i = 0; i < n; ++i)
            values.push_back(unit * float(int(random_bits(key, uint64_t(i)) % 17) - 8));
          return values;
        };
        const auto route = [&](const Ops& on) {
          Rig rig(on);
          const Tensor experts = rig.empty(DType::i32, {tokens, top_k});
          const Tensor weights = rig.empty(DType::f32, {tokens, top_k});
          rig.run(on.route,
                  Route{.experts = experts,
                        .weights = weights,
                        .x = rig.put(type, {tokens, hidden}, grid(tokens * hidden, 1, 0.25f)),
                        .weight =
                            rig.put(DType::bf16, {count, hidden}, grid(count * hidden, 2, 0x1p-4f)),
                        .bias = rig.put(DType::f32, {count}, grid(count, 3, 0.25f))});
          return Routed{rig.read(experts), rig.read(weights)};
        };
        const Routed got = route(*ops), want = route(reference_ops());
        EXPECT_TRUE(close(got.experts, want.experts));
        // Two exponentials and a sum of a few: 16 units of f32; then a rounding.
        EXPECT_TRUE(
            close(got.weights, want.weights,
                  {.absolute = 1e-30, .relative = 0x1p-20 + Tolerance::rounding(type).relative}));
      }
}

// Rows of numbers of one size, whose norm is exactly their sign, and gains that are bf16: the logits
// are as exact as above.
TEST(Route, of_the_norm) {
  constexpr int kShapes[][4] = {{1, 64, 4, 2},      {3, 192, 16, 4}, {9, 2880, 32, 4},
                                {17, 2880, 128, 4}, {2, 3200, 8, 2}, {2, 100, 5, 5}};
  for (const Ops* ops : backends())
    for (const DType type : {DType::f32, DType::bf16})
      for (const auto& shape : kShapes) {
        const int tokens = shape[0], hidden = shape[1], count = shape[2], top_k = shape[3];
        SCOPED_TRACE(strf("%s %s [%d, %d] %d of %d", ops->name, name_of(type), tokens, hidden,
                          top_k, count));
        std::vector<float> x, gain, weight, bias, normed;
        for (int i = 0; i < hidden; ++i)
          gain.push_back(float(int(random_bits(5, uint64_t(i)) % 9) - 4) / 4);
        for (int i = 0; i < tokens * hidden; ++i) {
          const float sign = random_bits(1, uint64_t(i)) % 2 ? 1 : -1;
          x.push_back(sign * float(1 << i / hidden % 5));
          normed.push_back(sign * gain[size_t(i % hidden)]);
        }
        for (int i = 0; i < count * hidden; ++i)
          weight.push_back(float(int(random_bits(2, uint64_t(i)) % 17) - 8) / 16);
        for (int i = 0; i < count; ++i) bias.push_back(float(random_bits(3, uint64_t(i)) % 17) / 4);
        const auto route = [&](const Ops& on, bool with_norm) {
          Rig rig(on);
          const Tensor all = rig.empty(type, {tokens, hidden});
          Route op = {.experts = rig.empty(DType::i32, {tokens, top_k}),
                      .weights = rig.empty(DType::f32, {tokens, top_k}),
                      .x = rig.put(type, {tokens, hidden}, with_norm ? x : normed),
                      .weight = rig.put(DType::bf16, {count, hidden}, weight),
                      .bias = rig.put(DType::f32, {count}, bias)};
          if (with_norm) {
            op.gain = rig.put(DType::f32, {hidden}, gain);
            op.eps = 0;
            op.normed = all;
          }
          rig.run(on.route, op);
          return std::tuple(rig.read(op.experts), rig.read(op.weights), rig.read(all));
        };
        const auto [experts, weights, rows] = route(*ops, true);
        const auto [want_experts, want_weights, unused] = route(reference_ops(), false);
        EXPECT_TRUE(close(rows, {{tokens, hidden}, normed}));
        EXPECT_TRUE(close(experts, want_experts));
        EXPECT_TRUE(
            close(weights, want_weights,
                  {.absolute = 1e-30, .relative = 0x1p-20 + Tolerance::rounding(type).relative}));
      }
}

}  // namespace
}  // namespace rose
