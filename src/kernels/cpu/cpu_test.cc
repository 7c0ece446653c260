// What only the CPU's tables promise, beside what every backend does (<op>/<op>_test.cc): all remainders
// of their tiles, the extremes of their integer sums, the same bits from every instruction set, and the
// same bits for a token whatever stands beside it.
#include "kernels/cpu/cpu.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/attend/attend.h"
#include "kernels/experts/experts.h"
#include "kernels/matmul/matmul.h"
#include "kernels/pack/pack.h"
#include "kernels/rms_norm/rms_norm.h"
#include "tensor/bf16.h"
#include "testing/paging.h"
#include "testing/rig.h"

namespace rose {
namespace {

using testing::close;
using testing::Rig;
using testing::Tolerance;
using testing::Values;

constexpr Format kAllFormats[] = {Format::bf16, Format::q8, Format::mxfp4, Format::mxfp4_q8};

std::vector<const Ops*> tables() {
  std::vector<const Ops*> all;
  for (const Ops* ops : {cpu::avx2_ops(), cpu::avx512_ops()})
    if (ops) all.push_back(ops);
  return all;
}

struct Shape {
  int tokens, rows, columns;
};

Values matmul(const Ops& ops, Format format, Shape shape, DType dtype, bool magnitudes = false) {
  Rig rig(ops);
  const Tensor y = rig.empty(dtype, {shape.tokens, shape.rows});
  const Tensor x = magnitudes ? rig.uniform(dtype, {shape.tokens, shape.columns}, 1, 2, 4)
                              : rig.normal(dtype, {shape.tokens, shape.columns}, 1);
  rig.run(ops.matmul,
          Matmul{.y = y,
                 .x = x,
                 .weight = rig.weight(format, 1, shape.rows, shape.columns,
                                      {.key = 2, .size = 0.25f, .magnitudes = magnitudes}),
                 .bias = rig.normal(DType::f32, {shape.rows}, 3)});
  return rig.read(y);
}

// Rows under, at and past a group of 16 and a pair of groups; tokens around every tile; odd columns.
TEST(CpuMatmul, agrees_with_the_reference_over_all_remainders) {
  for (const Ops* ops : tables())
    for (const Format format : kAllFormats)
      for (const int rows : {1, 15, 16, 17, 33, 48, 192})
        for (const int tokens : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 33, 64}) {
          const Shape shape = {tokens, rows, format == Format::bf16 ? 97 : 96};
          SCOPED_TRACE(
              strf("%s %s [%d, %d, %d]", ops->name, name_of(format), tokens, rows, shape.columns));
          // |x w| <= 4 * 6 in the mean of few: a generous sum of magnitudes is 6 a column.
          const Tolerance tolerance = {.absolute = Tolerance::dot(97) * 97 * 6};
          EXPECT_TRUE(close(matmul(*ops, format, shape, DType::f32),
                            matmul(reference_ops(), format, shape, DType::f32), tolerance));
        }
}

TEST(CpuMatmul, agrees_with_the_reference_in_the_models_sizes) {
  constexpr Shape kShapes[] = {{9, 1280, 192}, {3, 192, 1024}, {2, 2048, 192},
                               {2, 384, 192},  {3, 2880, 96},  {2, 96, 5760}};
  for (const Ops* ops : tables())
    for (const Format format : kAllFormats)
      for (const DType dtype : {DType::f32, DType::bf16})
        for (const Shape& shape : kShapes) {
          SCOPED_TRACE(strf("%s %s %s [%d, %d, %d]", ops->name, name_of(format), name_of(dtype),
                            shape.tokens, shape.rows, shape.columns));
          const Values want = matmul(reference_ops(), format, shape, dtype);
          Values bound = matmul(reference_ops(), format, shape, DType::f32, true);
          for (float& b : bound.at) b = std::fabs(b) * float(Tolerance::dot(shape.columns));
          EXPECT_TRUE(
              close(matmul(*ops, format, shape, dtype), want, bound, Tolerance::rounding(dtype)));
        }
}

// Every code at its largest, all signs alike or alternating: integer sums that a narrower
// multiply-add would saturate. Both sides are exact here.
TEST(CpuMatmul, the_largest_products_do_not_saturate) {
  constexpr int kColumns = 64;
  for (const bool mxfp4 : {false, true})
    for (const float x_sign : {1.0f, -1.0f})
      for (const int pattern : {0, 1, 2}) {  // weights: all +, all -, alternating
        std::vector<uint8_t> values, scales(kColumns / 32, 127);
        for (int c = 0; c < kColumns; ++c) {
          const bool negative = pattern == 1 || (pattern == 2 && c % 2);
          if (mxfp4) {
            if (c % 2) continue;
            values.push_back(pattern == 0 ? 0x77 : pattern == 1 ? 0xff : 0xf7);
          } else {
            const uint16_t bits = to_bf16(negative ? -127.0f : 127.0f).bits;
            values.push_back(uint8_t(bits));
            values.push_back(uint8_t(bits >> 8));
          }
        }
        const RawWeight raw = {.kind = mxfp4 ? RawWeight::Kind::mxfp4 : RawWeight::Kind::bf16,
                               .rows = 1,
                               .columns = kColumns,
                               .values = values.data(),
                               .scales = scales.data()};
        for (const Ops* ops : tables()) {
          SCOPED_TRACE(
              strf("%s mxfp4=%d x=%g pattern=%d", ops->name, mxfp4, double(x_sign), pattern));
          Rig rig(*ops);
          const Tensor y = rig.empty(DType::f32, {1, 1});
          rig.run(ops->matmul,
                  Matmul{.y = y,
                         .x = rig.put(DType::f32, {1, kColumns},
                                      std::vector<float>(kColumns, 127 * x_sign)),
                         .weight = rig.pack(mxfp4 ? Format::mxfp4_q8 : Format::q8, raw)});
          const float each = x_sign * 127 * (mxfp4 ? 6 : 127);
          EXPECT_EQ(rig.read(y).at[0], pattern == 0   ? each * kColumns
                                       : pattern == 1 ? -each * kColumns
                                                      : 0);
        }
      }
}

// Scales at both ends of E8M0 (0 is a subnormal, 255 a NaN), zero blocks, and input blocks of zeros,
// of numbers too small to divide by, with an infinity, with a NaN.
TEST(CpuMatmul, extreme_scales_and_broken_inputs_are_as_in_the_reference) {
  constexpr int kColumns = 32;
  constexpr uint8_t kScales[] = {0, 1, 2, 126, 127, 128, 250, 254, 255};
  const float kInputs[] = {0, 1, 1e-31f, 1e-20f, 1e5f, INFINITY, NAN};
  for (const Format format : {Format::mxfp4, Format::mxfp4_q8})
    for (const uint8_t scale : kScales)
      for (const float input : kInputs) {
        if (format == Format::mxfp4 && !std::isfinite(input)) continue;  // inf * 0: NaN either way
        std::vector<uint8_t> values(kColumns / 2, 0x21), scales = {scale};
        const RawWeight raw = {.kind = RawWeight::Kind::mxfp4,
                               .rows = 1,
                               .columns = kColumns,
                               .values = values.data(),
                               .scales = scales.data()};
        std::vector<float> x(kColumns, 0.5f * input);
        x[5] = input;
        const auto result = [&](const Ops& ops) {
          Rig rig(ops);
          const Tensor y = rig.empty(DType::f32, {1, 1});
          rig.run(ops.matmul, Matmul{.y = y,
                                     .x = rig.put(DType::f32, {1, kColumns}, x),
                                     .weight = rig.pack(format, raw)});
          return rig.read(y);
        };
        for (const Ops* ops : tables()) {
          SCOPED_TRACE(
              strf("%s %s scale=%d x=%g", ops->name, name_of(format), scale, double(input)));
          EXPECT_TRUE(close(result(*ops), result(reference_ops()), {.relative = 1e-5}));
        }
      }
}

TEST(CpuMatmul, weights_of_every_size_are_quantised_as_in_the_reference) {
  for (const float size : {0.0f, 1e-38f, 1e-30f, 1e-10f, 1.0f, 1e30f, INFINITY, NAN}) {
    std::vector<uint8_t> values(64 * 2);
    for (int c = 0; c < 64; ++c) {
      const bf16 value = to_bf16(size * testing::normal_number(1, uint64_t(c)));
      std::memcpy(values.data() + c * 2, &value, 2);
    }
    const RawWeight raw = {.rows = 1, .columns = 64, .values = values.data()};
    const auto result = [&](const Ops& ops) {
      Rig rig(ops);
      const Tensor y = rig.empty(DType::f32, {1, 1});
      rig.run(ops.matmul, Matmul{.y = y,
                                 .x = rig.normal(DType::f32, {1, 64}, 2),
                                 .weight = rig.pack(Format::q8, raw)});
      return rig.read(y);
    };
    for (const Ops* ops : tables()) {
      SCOPED_TRACE(strf("%s size=%g", ops->name, double(size)));
      EXPECT_TRUE(close(result(*ops), result(reference_ops()), {.relative = 1e-5}));
    }
  }
}

void expect_same_bits(const Values& got, const Values& want) {
  ASSERT_EQ(got.at.size(), want.at.size());
  for (size_t i = 0; i < got.at.size(); ++i)
    ASSERT_TRUE(std::memcmp(&got.at[i], &want.at[i], 4) == 0)
        << "element " << i << ": " << got.at[i] << ", want " << want.at[i];
}

Values rows(const Values& all, int64_t first, int64_t count) {
  const int64_t width = int64_t(all.at.size()) / all.dims[0];
  return {{count, width},
          {all.at.begin() + first * width, all.at.begin() + (first + count) * width}};
}

TEST(CpuMatmul, a_token_gets_the_same_bits_in_any_batch_and_on_any_processor) {
  for (const Format format : kAllFormats) {
    SCOPED_TRACE(name_of(format));
    const Values want = matmul(*tables().front(), format, {1, 200, 192}, DType::f32);
    for (const Ops* ops : tables())
      for (const int tokens : {1, 2, 5, 8, 9, 40}) {
        SCOPED_TRACE(strf("%s %d tokens", ops->name, tokens));
        expect_same_bits(rows(matmul(*ops, format, {tokens, 200, 192}, DType::f32), 0, 1), want);
      }
  }
}

Values experts(const Ops& ops, Format format, int tokens, DType dtype) {
  constexpr int kExperts = 5, kTopK = 2, kHidden = 96, kFfn = 64;
  Rig rig(ops);
  std::vector<float> chosen;
  for (int token = 0; token < tokens; ++token)
    for (int i = 0; i < kTopK; ++i)
      chosen.push_back(float((token * 3 + i * 2 + token / 7) % kExperts));
  const Tensor y = rig.empty(dtype, {tokens, kTopK, kHidden});
  rig.run(
      ops.experts,
      Experts{.y = y,
              .x = rig.normal(dtype, {tokens, kHidden}, 1),
              .experts = rig.put(DType::i32, {tokens, kTopK}, chosen),
              .gate_up = rig.weight(format, kExperts, 2 * kFfn, kHidden, {.key = 2, .size = .25f}),
              .gate_up_bias = rig.normal(DType::f32, {kExperts, 2 * kFfn}, 3),
              .down = rig.weight(format, kExperts, kHidden, kFfn, {.key = 4, .size = .25f}),
              .down_bias = rig.normal(DType::f32, {kExperts, kHidden}, 5)});
  return rig.read(y);
}

TEST(CpuExperts, a_token_gets_the_same_bits_in_any_batch_and_on_any_processor) {
  for (const Format format : kAllFormats) {
    const Values want = experts(*tables().front(), format, 1, DType::f32);
    for (const Ops* ops : tables())
      for (const int tokens : {1, 2, 9, 70}) {
        SCOPED_TRACE(strf("%s %s %d tokens", ops->name, name_of(format), tokens));
        const Values got = experts(*ops, format, tokens, DType::f32);
        expect_same_bits(rows(got, 0, 1), want);
        EXPECT_LT(relative_error(got, experts(reference_ops(), format, tokens, DType::f32)), 1e-2);
      }
  }
}

// Five tokens' worth of one sequence in one chunk or one by one, beside another sequence or alone.
TEST(CpuAttend, a_token_gets_the_same_bits_in_any_chunk_and_on_any_processor) {
  constexpr int kHeads = 6, kKvHeads = 2, kDim = 24, kTokens = 200;
  for (const int window : {kEveryKey, 70})
    for (const DType pages : {DType::bf16, DType::f32}) {
      const testing::Paging paging(2, kTokens, window == kEveryKey ? 1 << 20 : window, 7);
      const auto run = [&](const Ops& ops, const std::vector<testing::Slice>& slices) {
        Rig rig(ops);
        const Batch batch = paging.step(rig, slices);
        const int64_t width = (kHeads + 2 * kKvHeads) * kDim;
        std::vector<float> qkv;  // a function of sequence and position alone
        for (const testing::Slice& slice : slices)
          for (int i = slice.first; i < slice.first + slice.count; ++i)
            for (int64_t c = 0; c < width; ++c)
              qkv.push_back(testing::normal_number(uint64_t(slice.seq * 1000 + i), uint64_t(c)));
        const Tensor y = rig.empty(DType::f32, {batch.tokens, kHeads * kDim});
        rig.run(ops.attend,
                Attend{.y = y,
                       .qkv = rig.put(DType::f32, {batch.tokens, width}, qkv),
                       .kv = {.pages = rig.normal(
                                  pages, {paging.pages(), kKvHeads, 2, kPageSize * kDim}, 5),
                              .pool = window == kEveryKey ? Pool::full : Pool::sliding},
                       .batch = &batch,
                       .sinks = rig.normal(DType::f32, {kHeads}, 6),
                       .window = window,
                       .heads = kHeads,
                       .head_dim = kDim,
                       .scale = 0.2f});
        return rig.read(y);
      };
      const Values want = run(*tables().front(), {{.seq = 1, .first = 150, .count = 40}});
      EXPECT_TRUE(close(want, run(reference_ops(), {{.seq = 1, .first = 150, .count = 40}}),
                        {.absolute = 1e-5, .relative = 1e-5}));
      for (const Ops* ops : tables()) {
        SCOPED_TRACE(strf("%s window=%d %s", ops->name, window, name_of(pages)));
        const Values whole =
            run(*ops, {{.seq = 0, .first = 3, .count = 5}, {.seq = 1, .first = 150, .count = 40}});
        expect_same_bits(rows(whole, 5, 40), rows(want, 0, 40));
        const Values alone = run(*ops, {{.seq = 1, .first = 189, .count = 1}});
        expect_same_bits(alone, rows(want, 39, 1));
      }
    }
}

// Both compute in f64, so of some hundred thousand numbers not one lies close enough to the middle of two bf16 to
// round differently; in f32 dozens would.
TEST(CpuRmsNorm, rounds_as_the_reference_does) {
  const auto normed = [](const Ops& on) {
    Rig rig(on);
    const Tensor y = rig.empty(DType::bf16, {100, 2880});
    rig.run(on.rms_norm, RmsNorm{.y = y,
                                 .x = rig.normal(DType::bf16, {100, 2880}, 1),
                                 .gain = rig.normal(DType::f32, {2880}, 2)});
    return rig.read(y);
  };
  const Values want = normed(reference_ops());
  for (const Ops* ops : tables()) {
    SCOPED_TRACE(ops->name);
    EXPECT_TRUE(close(normed(*ops), want));
  }
}

}  // namespace
}  // namespace rose
