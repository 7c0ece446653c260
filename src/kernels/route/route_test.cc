#include "kernels/route/route.h"

#include "base/rng.h"
#include "testing/rig.h"

namespace rose {
namespace {

using namespace testing;

struct RouteShape {
  int tokens, hidden, experts, top_k;
};

struct RouteNumbers {
  std::vector<float> x, weight, bias;
  std::vector<float> gain = {};  // none: x is routed as it is
};

struct Routed {
  Values experts, weights, normed;
};

Routed run_route(const Ops& ops, DType type, const RouteShape& shape, const RouteNumbers& numbers) {
  Rig rig(ops);
  const auto [tokens, hidden, experts, top_k] = shape;
  const Tensor normed = rig.empty(type, {tokens, hidden});
  Route op = {.experts = rig.empty(DType::i32, {tokens, top_k}),
              .weights = rig.empty(DType::f32, {tokens, top_k}),
              .x = rig.put(type, {tokens, hidden}, numbers.x),
              .weight = rig.put(DType::bf16, {experts, hidden}, numbers.weight),
              .bias = rig.put(DType::f32, {experts}, numbers.bias)};
  if (!numbers.gain.empty()) {
    op.gain = rig.put(DType::f32, {hidden}, numbers.gain);
    op.eps = 0;
    op.normed = normed;
  }
  rig.run(ops.route, op);
  return {rig.read(op.experts), rig.read(op.weights), rig.read(normed)};
}

// Random multiples of `unit`, up to eight of them to either side.
std::vector<float> on_a_grid(int count, uint64_t key, float unit) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i)
    values.push_back(unit * float(int(random_bits(key, uint64_t(i)) % 17) - 8));
  return values;
}

// One token whose logits are given: through the bias.
Routed routed(const Ops& ops, DType type, const std::vector<float>& logits, int top_k) {
  const int experts = int(logits.size());
  return run_route(ops, type, {1, 32, experts, top_k},
                   {std::vector<float>(32), on_a_grid(experts * 32, 1, 1), logits});
}

TEST(Route, by_hand) {
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    const Routed got = routed(*ops, DType::f32, {1, 3, -2, 3, .5f, 2, 2.5f, -1}, 4);
    EXPECT_EQ(got.experts.at,
              (std::vector<float>{1, 3, 6, 5}));  // the lower of the equal ones first
    const Values want = {{1, 4}, {.33620112f, .33620112f, .20391629f, .12368148f}};
    EXPECT_TRUE(close(got.weights, want, {.relative = 1e-6}));
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

// `check(ops, type, shape)` for every backend, type of activations and one of these shapes.
template <class Check>
void for_each_route(std::initializer_list<RouteShape> shapes, const Check& check) {
  for (const Ops* ops : backends())
    for (const DType type : {DType::f32, DType::bf16})
      for (const RouteShape& shape : shapes) {
        SCOPED_TRACE(strf("%s %s [%d, %d] %d of %d", ops->name, name_of(type), shape.tokens,
                          shape.hidden, shape.top_k, shape.experts));
        check(*ops, type, shape);
      }
}

// Inputs whose sums are exact in f32 in any order (multiples of 2^-6, below 2^18 of them), so that every
// backend sees the same logits and must choose the same experts, ties included.
RouteNumbers exact_numbers(const RouteShape& shape) {
  const auto [tokens, hidden, experts, top_k] = shape;
  return {.x = on_a_grid(tokens * hidden, 1, 0.25f),
          .weight = on_a_grid(experts * hidden, 2, 0x1p-4f),
          .bias = on_a_grid(experts, 3, 0.25f)};
}

void expect_same_route(const Routed& got, const Routed& want, DType type) {
  EXPECT_TRUE(close(got.experts, want.experts));
  // Two exponentials and a sum of a few: 16 units of f32; then a rounding.
  EXPECT_TRUE(close(got.weights, want.weights,
                    {.absolute = 1e-30, .relative = 0x1p-20 + Tolerance::rounding(type).relative}));
}

TEST(Route, backends_agree_with_the_reference) {
  for_each_route({{1, 64, 4, 2},
                  {3, 192, 16, 4},
                  {70, 2880, 32, 4},
                  {5, 2880, 128, 4},
                  {2, 100, 5, 5},
                  {0, 64, 8, 2}},
                 [](const Ops& ops, DType type, const RouteShape& shape) {
                   const RouteNumbers numbers = exact_numbers(shape);
                   expect_same_route(run_route(ops, type, shape, numbers),
                                     run_route(reference_ops(), type, shape, numbers), type);
                 });
}

// Rows of numbers of one size, whose norm is exactly their sign, and gains that are bf16: the logits
// are as exact as above.
TEST(Route, of_the_norm) {
  for_each_route({{1, 64, 4, 2},
                  {3, 192, 16, 4},
                  {9, 2880, 32, 4},
                  {17, 2880, 128, 4},
                  {2, 3200, 8, 2},
                  {2, 100, 5, 5}},
                 [](const Ops& ops, DType type, const RouteShape& shape) {
                   RouteNumbers before = exact_numbers(shape), after = before;
                   before.gain = on_a_grid(shape.hidden, 5, 0.25f);
                   for (int i = 0; i < shape.tokens * shape.hidden; ++i) {
                     const float sign = random_bits(1, uint64_t(i)) % 2 ? 1 : -1;
                     before.x[size_t(i)] = sign * float(1 << i / shape.hidden % 5);
                     after.x[size_t(i)] = sign * before.gain[size_t(i % shape.hidden)];
                   }
                   const Routed got = run_route(ops, type, shape, before);
                   expect_same_route(got, run_route(reference_ops(), type, shape, after), type);
                   EXPECT_TRUE(close(got.normed, {{shape.tokens, shape.hidden}, after.x}));
                 });
}

}  // namespace
}  // namespace rose
