#include "kernels/pack/pack.h"

#include <cstring>

#include "kernels/matmul/matmul.h"
#include "tensor/bf16.h"
#include "tensor/fp8.h"
#include "tensor/mxfp4.h"
#include "tensor/q8.h"
#include "testing/rig.h"

namespace rose {
namespace {

using namespace testing;

// The worked example of the MXFP4 layout: low nibble first, every code once in order, then shuffled.
constexpr uint8_t kBlock[16] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE,
                                0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF};

// What a packed matrix multiplies by, read through one-hot inputs: [columns, rows].
Values numbers(const Ops& ops, Format format, const RawWeight& raw) {
  Rig rig(ops);
  std::vector<float> one_hot(size_t(raw.columns) * size_t(raw.columns));
  for (int c = 0; c < raw.columns; ++c) one_hot[size_t(c) * size_t(raw.columns + 1)] = 1;
  const Tensor y = rig.empty(DType::f32, {raw.columns, raw.rows});
  rig.run(ops.matmul, Matmul{.y = y,
                             .x = rig.put(DType::f32, {raw.columns, raw.columns}, one_hot),
                             .weight = rig.pack(format, raw)});
  return rig.read(y);
}

TEST(Pack, mxfp4_is_exact) {
  constexpr float kWant[32] = {0,     .5f, 1,    1.5f, 2,     3,   4,  6,    -0.f, -.5f, -1,
                               -1.5f, -2,  -3,   -4,   -6,    .5f, 0,  1.5f, 1,    3,    2,
                               6,     4,   -.5f, -0.f, -1.5f, -1,  -3, -2,   -6,   -4};
  const struct {
    uint8_t byte;
    float factor;
  } kScales[] = {{127, 1}, {124, 0.125f}, {130, 8}, {0, 0x1p-127f}};
  for (const Ops* ops : available_ops())
    for (const auto& [byte, factor] : kScales) {
      SCOPED_TRACE(strf("%s scale=%d", ops->name, byte));
      const RawWeight raw = {.kind = RawWeight::Kind::mxfp4,
                             .rows = 1,
                             .columns = 32,
                             .values = kBlock,
                             .scales = &byte};
      Values want = {{32, 1}, {}};
      for (const float value : kWant) want.at.push_back(value * factor);
      EXPECT_TRUE(close(numbers(*ops, Format::mxfp4, raw), want));
    }
}

TEST(Pack, the_worked_dot_product) {
  const uint8_t scale = 124;
  const RawWeight raw = {
      .kind = RawWeight::Kind::mxfp4, .rows = 1, .columns = 32, .values = kBlock, .scales = &scale};
  std::vector<float> x;
  for (int k = 0; k < 32; ++k) x.push_back(float(k - 16) * 0.25f);
  for (const Ops* ops : available_ops())
    for (const Format format : {Format::mxfp4, Format::bf16}) {
      SCOPED_TRACE(strf("%s %s", ops->name, name_of(format)));
      Rig rig(*ops);
      const Tensor y = rig.empty(DType::f32, {1, 1});
      rig.run(
          ops->matmul,
          Matmul{.y = y, .x = rig.put(DType::f32, {1, 32}, x), .weight = rig.pack(format, raw)});
      EXPECT_EQ(rig.read(y).at[0], -9.0f);  // every product and sum is exact
    }
}

TEST(Pack, q8_by_hand) {
  float x[32] = {127, -63.5f, 62.5f, 0.4f};
  int8_t codes[32];
  EXPECT_EQ(quantise_q8(x, codes), 1.0f);
  EXPECT_EQ(codes[0], 127);
  EXPECT_EQ(codes[1], -64);  // ties to even
  EXPECT_EQ(codes[2], 62);
  EXPECT_EQ(codes[3], 0);

  float tiny[32] = {0x1p-101f};
  EXPECT_EQ(quantise_q8(tiny, codes), 0.0f);
  EXPECT_EQ(codes[0], 0);

  x[5] = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(quantise_q8(x, codes)));
  x[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(quantise_q8(x, codes)));
}

// Every kind of checkpoint into every format that can hold it, several experts' worth of rows, from
// bytes that are not aligned.
TEST(Pack, backends_hold_the_same_numbers_as_the_reference) {
  constexpr int kRows = 41, kColumns = 96;
  std::vector<uint8_t> bytes(1 + kRows * kColumns * 2), scales(1 + kRows * kColumns / 32);
  for (const RawWeight::Kind kind :
       {RawWeight::Kind::bf16, RawWeight::Kind::bf16_transposed, RawWeight::Kind::mxfp4}) {
    if (kind == RawWeight::Kind::mxfp4) {
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(i * 73 >> 3);
      for (size_t i = 0; i < scales.size(); ++i) scales[i] = uint8_t(120 + i % 9);
    } else {
      for (size_t i = 0; i < kRows * kColumns; ++i) {
        const bf16 value = to_bf16(normal_number(7, i));
        std::memcpy(&bytes[1 + 2 * i], &value, 2);
      }
    }
    const RawWeight raw = {.kind = kind,
                           .rows = kRows,
                           .columns = kColumns,
                           .values = bytes.data() + 1,
                           .scales = scales.data() + 1};
    for (const Format format : {Format::bf16, Format::q8, Format::mxfp4, Format::mxfp4_q8,
                                Format::fp8, Format::mxfp4_fp8, Format::fp8_block}) {
      if (!packable(kind, format)) continue;
      const Values want = numbers(reference_ops(), format, raw);
      for (const Ops* ops : backends()) {
        SCOPED_TRACE(strf("%s kind=%d %s", ops->name, int(kind), name_of(format)));
        if (!keeps(*ops, format)) continue;
        EXPECT_TRUE(close(numbers(*ops, format, raw), want, Tolerance::rounding(DType::f32)));
      }
    }
  }
}

TEST(Pack, the_scale_of_an_fp8_block) {
  EXPECT_EQ(fp8_block_scale(448), 1);
  EXPECT_EQ(fp8_block_scale(449), 2);
  EXPECT_EQ(fp8_block_scale(1.75f), 0x1p-8f);
  EXPECT_EQ(fp8_block_scale(6), 0x1p-6f);
  EXPECT_EQ(fp8_block_scale(0), 1);
  EXPECT_EQ(fp8_block_scale(1e-45f), 0x1p-126f);
  EXPECT_EQ(fp8_block_scale(std::numeric_limits<float>::infinity()),
            std::numeric_limits<float>::infinity());
}

// 128 rows and columns share a scale, those after them have another.
TEST(Pack, fp8_blocks_by_hand) {
  constexpr int kSize = 130;
  std::vector<bf16> values(kSize * kSize, to_bf16(0));
  const auto at = [&](int row, int column) -> bf16& {
    return values[size_t(row * kSize + column)];
  };
  at(0, 0) = to_bf16(1.75f);          // so that 1.75 / 448 = 2^-8 is the scale
  at(127, 127) = to_bf16(0x1p-17f);   // the smallest number there
  at(127, 126) = to_bf16(-0x1p-19f);  // too small
  at(64, 5) = to_bf16(1.1875f);       // between 1.125 and 1.25: to even
  at(127, 128) = at(128, 127) = at(128, 128) = to_bf16(-0x1p-19f);
  for (const Ops* ops : available_ops()) {
    if (!keeps(*ops, Format::fp8_block)) continue;
    SCOPED_TRACE(ops->name);
    const Values found = numbers(*ops, Format::fp8_block,
                                 {.rows = kSize,
                                  .columns = kSize,
                                  .values = reinterpret_cast<const uint8_t*>(values.data())});
    const auto weight = [&](int row, int column) { return found.at[size_t(column * kSize + row)]; };
    EXPECT_EQ(weight(0, 0), 1.75f);
    EXPECT_EQ(weight(127, 127), 0x1p-17f);
    EXPECT_EQ(weight(127, 126), 0);
    EXPECT_EQ(weight(64, 5), 1.25f);
    EXPECT_EQ(weight(127, 128), -0x1p-19f);
    EXPECT_EQ(weight(128, 127), -0x1p-19f);
    EXPECT_EQ(weight(128, 128), -0x1p-19f);
  }
}

// Blocks of MXFP4 whose exponent lies too far under the largest that shares their scale are counted.
TEST(Pack, blocks_that_lose_bits_are_counted) {
  // Two rows of two blocks: 6 and some ones in the first, in the others .5, 1 and 0.
  uint8_t codes[4 * kMxBlockBytes] = {0x27, 0x22};
  for (int block = 1; block < 4; ++block) codes[block * kMxBlockBytes] = 0x21;
  const struct {
    Format format;
    int below;  // the exponents of the other blocks under the first
    int64_t inexact;
  } kCases[] = {{Format::fp8_block, 0, 0},  {Format::fp8_block, 14, 0}, {Format::fp8_block, 15, 3},
                {Format::fp8_block, 40, 3}, {Format::mxfp4, 18, 0},     {Format::mxfp4_fp8, 11, 0}};
  for (const Ops* ops : available_ops())
    for (const auto& [format, below, inexact] : kCases) {
      if (!keeps(*ops, format)) continue;
      SCOPED_TRACE(strf("%s %s %d", ops->name, name_of(format), below));
      const uint8_t low = uint8_t(150 - below);
      const uint8_t scales[4] = {150, low, low, low};
      const RawWeight raw = {.kind = RawWeight::Kind::mxfp4,
                             .rows = 2,
                             .columns = 64,
                             .values = codes,
                             .scales = scales};
      Rig rig(*ops);
      Buffer count = *Buffer::allocate(*ops->device, sizeof(int64_t));
      ops->device->zero(rig.stream(), count.data(), sizeof(int64_t));
      Buffer data = *Buffer::allocate(*ops->device, ops->weight_bytes(format, 1, 2, 64));
      for (int twice = 0; twice < 2; ++twice)
        rig.run(ops->pack,
                Pack{.to = {.format = format, .rows = 2, .columns = 64, .data = data.data()},
                     .from = raw,
                     .inexact = static_cast<int64_t*>(count.data())});
      int64_t found = -1;
      ops->device->download(rig.stream(), &found, count.data(), sizeof found);
      ops->device->synchronize(rig.stream());
      EXPECT_EQ(found, 2 * inexact);
    }
}

TEST(Pack, a_transposed_matrix_is_the_same_matrix) {
  constexpr int kRows = 5, kColumns = 7;
  bf16 plain[kRows * kColumns], transposed[kRows * kColumns];
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c)
      plain[r * kColumns + c] = transposed[c * kRows + r] = to_bf16(float(r * 16 + c));
  RawWeight raw = {
      .rows = kRows, .columns = kColumns, .values = reinterpret_cast<const uint8_t*>(plain)};
  const Values want = numbers(reference_ops(), Format::bf16, raw);
  EXPECT_EQ(want.at[2 * kRows + 3], 3 * 16 + 2);
  raw.kind = RawWeight::Kind::bf16_transposed;
  raw.values = reinterpret_cast<const uint8_t*>(transposed);
  EXPECT_TRUE(close(numbers(reference_ops(), Format::bf16, raw), want));
}

}  // namespace
}  // namespace rose
