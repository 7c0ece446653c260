#include "kernels/matmul/matmul.h"

#include "tensor/bf16.h"
#include "testing/rig.h"

namespace rose {
namespace {

using namespace testing;

constexpr Format kMatmulFormats[] = {Format::bf16,     Format::q8,  Format::mxfp4,
                                     Format::mxfp4_q8, Format::fp8, Format::mxfp4_fp8,
                                     Format::fp8_block};

// Of numbers that bf16 can hold.
Weight bf16_weight(Rig& rig, int rows, int columns, const std::vector<float>& numbers) {
  std::vector<bf16> values;
  for (const float number : numbers) values.push_back(to_bf16(number));
  return rig.pack(Format::bf16, {.rows = rows,
                                 .columns = columns,
                                 .values = reinterpret_cast<const uint8_t*>(values.data())});
}

TEST(Matmul, by_hand) {
  Rig rig(reference_ops());
  const Tensor y = rig.empty(DType::f32, {2, 2});
  rig.run(rig.ops().matmul, Matmul{.y = y,
                                   .x = rig.put(DType::f32, {2, 3}, {1, 1, 1, 2, -1, 4}),
                                   .weight = bf16_weight(rig, 2, 3, {1, 2, -1, .5f, 0, 3}),
                                   .bias = rig.put(DType::f32, {2}, {10, 20})});
  EXPECT_EQ(rig.read(y).at, (std::vector<float>{12, 23.5, 6, 33}));
}

// The sum and the bias are rounded together, once: 1 + 2^-8 - 2^-8 is 1, were the sum rounded first it
// would be 1 - 2^-8.
TEST(Matmul, rounds_once) {
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    Rig rig(*ops);
    const Tensor y = rig.empty(DType::bf16, {1, 1});
    rig.run(ops->matmul, Matmul{.y = y,
                                .x = rig.put(DType::bf16, {1, 2}, {1, 1}),
                                .weight = bf16_weight(rig, 1, 2, {1, 0x1p-8f}),
                                .bias = rig.put(DType::f32, {1}, {-0x1p-8f})});
    EXPECT_EQ(rig.read(y).at[0], 1.0f);
  }
}

// -1 + round(1 + 2^-8) is 0: the result is rounded before it is added.
TEST(Matmul, adds_the_rounded_result) {
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    Rig rig(*ops);
    const Tensor y = rig.put(DType::bf16, {2, 1}, {-1, 2});
    rig.run(ops->matmul, Matmul{.y = y,
                                .x = rig.put(DType::bf16, {2, 2}, {1, 1, 3, 0}),
                                .weight = bf16_weight(rig, 1, 2, {1, 0x1p-8f}),
                                .add = true});
    EXPECT_EQ(rig.read(y).at, (std::vector<float>{0, 5}));
  }
}

struct MatmulShape {
  int tokens, rows, columns;
};

// The result for one of the random problems; with `magnitudes`, the sum of |x w| + |bias| instead.
Values product(const Ops& ops, Format format, DType type, MatmulShape shape, bool magnitudes) {
  Rig rig(ops);
  const auto [tokens, rows, columns] = shape;
  std::vector<float> x, bias;
  for (int i = 0; i < tokens * columns; ++i) x.push_back(normal_number(1, uint64_t(i)));
  for (int i = 0; i < rows; ++i) bias.push_back(normal_number(2, uint64_t(i)));
  if (magnitudes) {
    for (float& value : x) value = std::fabs(value);
    for (float& value : bias) value = std::fabs(value);
  }
  const Tensor y = rig.empty(magnitudes ? DType::f32 : type, {tokens, rows});
  rig.run(ops.matmul, Matmul{.y = y,
                             .x = rig.put(type, {tokens, columns}, x),
                             .weight = rig.weight(format, 1, rows, columns, {3, 0.1f, magnitudes}),
                             .bias = rig.put(DType::f32, {rows}, bias)});
  return rig.read(y);
}

// One token and small batches (decoding), a block of them and a ragged one (prefill), rows and columns
// that fill no block, the models' own sizes, no tokens.
TEST(Matmul, backends_agree_with_the_reference) {
  constexpr MatmulShape kShapes[] = {{1, 1, 32},    {1, 192, 192},   {1, 130, 2880}, {2, 33, 64},
                                     {3, 65, 192},  {4, 64, 96},     {5, 7, 160},    {7, 31, 320},
                                     {8, 128, 192}, {9, 100, 1024},  {33, 64, 192},  {64, 130, 96},
                                     {65, 48, 288}, {200, 130, 192}, {0, 16, 32}};
  for (const Format format : kMatmulFormats)
    for (const DType type : {DType::f32, DType::bf16})
      for (const MatmulShape& shape : kShapes) {
        const Values want = product(reference_ops(), format, type, shape, false);
        Values bound = product(reference_ops(), format, type, shape, true);
        // Activations that may be rounded to E4M3: by half a unit of 3 bits, 2^-4, each; together by far
        // less.
        const bool e4m3 = format == Format::fp8 && type == DType::bf16;
        for (float& value : bound.at)
          value *= float(Tolerance::dot(shape.columns) + (e4m3 ? 1.1 * 0x1p-4 : 0));
        for (const Ops* ops : backends()) {
          if (!keeps(*ops, format)) continue;
          SCOPED_TRACE(strf("%s %s %s [%d, %d] x [%d]", ops->name, name_of(format), name_of(type),
                            shape.tokens, shape.columns, shape.rows));
          const Values got = product(*ops, format, type, shape, false);
          EXPECT_TRUE(close(got, want, bound, Tolerance::rounding(type)));
          if (e4m3 && !want.at.empty()) {
            EXPECT_LE(relative_error(got, want), 0.05);
          }
        }
      }
}

// bf16 weights with a width that no block divides.
TEST(Matmul, any_number_of_columns_in_bf16) {
  for (const Ops* ops : backends())
    for (const int columns : {1, 7, 17, 63, 100}) {
      SCOPED_TRACE(strf("%s columns=%d", ops->name, columns));
      const MatmulShape shape = {3, 20, columns};
      Values bound = product(reference_ops(), Format::bf16, DType::f32, shape, true);
      for (float& value : bound.at) value *= float(Tolerance::dot(columns));
      EXPECT_TRUE(close(product(*ops, Format::bf16, DType::f32, shape, false),
                        product(reference_ops(), Format::bf16, DType::f32, shape, false), bound,
                        Tolerance::rounding(DType::f32)));
    }
}

// Every variant that a number of tokens may choose: what was there, plus what it gives without `add`.
TEST(Matmul, adding_gives_the_sum) {
  constexpr MatmulShape kShapes[] = {{1, 130, 192}, {3, 64, 96},   {8, 128, 192}, {12, 100, 192},
                                     {33, 65, 128}, {40, 128, 64}, {200, 130, 64}};
  for (const Ops* ops : available_ops())
    for (const Format format : kMatmulFormats)
      for (const DType type : {DType::f32, DType::bf16})
        for (const auto& [tokens, rows, columns] : kShapes) {
          if (!keeps(*ops, format)) continue;
          SCOPED_TRACE(strf("%s %s %s [%d, %d] x [%d]", ops->name, name_of(format), name_of(type),
                            tokens, columns, rows));
          Rig rig(*ops);
          const Tensor y = rig.empty(type, {tokens, rows});
          Matmul op = {.y = y,
                       .x = rig.normal(type, {tokens, columns}, 1),
                       .weight = rig.weight(format, 1, rows, columns, {2, 0.1f}),
                       .bias = rig.normal(DType::f32, {rows}, 3)};
          rig.run(ops->matmul, op);
          op.y = rig.normal(type, {tokens, rows}, 4);
          Values want = rig.read(op.y);
          const Values added = rig.read(y);
          for (size_t i = 0; i < want.at.size(); ++i) {
            want.at[i] += added.at[i];
            if (type == DType::bf16) want.at[i] = to_f32(to_bf16(want.at[i]));
          }
          op.add = true;
          rig.run(ops->matmul, op);
          EXPECT_TRUE(close(rig.read(op.y), want));
        }
}

// Logits stay f32 whatever the activations are.
TEST(Matmul, bf16_activations_with_an_f32_result) {
  for (const Ops* ops : backends())
    for (const Format format : kMatmulFormats) {
      if (!keeps(*ops, format)) continue;
      SCOPED_TRACE(strf("%s %s", ops->name, name_of(format)));
      const auto logits = [&](const Ops& on) {
        Rig rig(on);
        const Tensor y = rig.empty(DType::f32, {3, 70});
        rig.run(on.matmul, Matmul{.y = y,
                                  .x = rig.normal(DType::bf16, {3, 192}, 1),
                                  .weight = rig.weight(format, 1, 70, 192, {2, 0.1f})});
        return rig.read(y);
      };
      // The sum of magnitudes is about 192 x 0.8 x 0.08 = 12; 32 is above all of them.
      EXPECT_TRUE(close(logits(*ops), logits(reference_ops()),
                        {.absolute = 32 * Tolerance::dot(192), .relative = 0x1p-22}));
    }
}

// Sampling with a seed promises a result independent of the batch, so a row's bits must be as well.
TEST(Matmul, a_row_does_not_depend_on_its_neighbours) {
  for (const Ops* ops : available_ops())
    for (const Format format : kMatmulFormats) {
      if (!keeps(*ops, format)) continue;
      SCOPED_TRACE(strf("%s %s", ops->name, name_of(format)));
      Rig rig(*ops);
      const Tensor x = rig.normal(DType::f32, {37, 192}, 1);
      const Weight weight = rig.weight(format, 1, 100, 192, {2, 0.1f});
      const Tensor together = rig.empty(DType::f32, {37, 100}),
                   alone = rig.empty(DType::f32, {37, 100});
      rig.run(ops->matmul, Matmul{.y = together, .x = x, .weight = weight});
      for (int i = 0; i < 37; ++i)
        rig.run(ops->matmul, Matmul{.y = alone.rows(i, 1), .x = x.rows(i, 1), .weight = weight});
      EXPECT_TRUE(close(rig.read(alone), rig.read(together)));
    }
}

TEST(Matmul, a_broken_number_stays_visible) {
  for (const Ops* ops : available_ops())
    for (const Format format : kMatmulFormats)
      for (const float broken :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        if (!keeps(*ops, format)) continue;
        SCOPED_TRACE(strf("%s %s %g", ops->name, name_of(format), double(broken)));
        Rig rig(*ops);
        std::vector<float> x(64, 1.0f);
        x[40] = broken;
        const Tensor y = rig.empty(DType::f32, {1, 3});
        rig.run(ops->matmul, Matmul{.y = y,
                                    .x = rig.put(DType::f32, {1, 64}, x),
                                    .weight = rig.weight(format, 1, 3, 64, {2, 0.1f})});
        for (const float value : rig.read(y).at) EXPECT_FALSE(std::isfinite(value));
      }
}

}  // namespace
}  // namespace rose
