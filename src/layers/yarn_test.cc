#include "layers/yarn.h"

#include "kernels/rope_store/rope_store.h"
#include "testing/paging.h"

namespace rose {
namespace {

using namespace testing;

constexpr Yarn kGptOss = {.factor = 32};

// The published frequencies (computed in f64 from the formula's own definition).
TEST(Yarn, inverse_frequencies_of_gpt_oss) {
  constexpr double kWant[32] = {1.000000000e+00, 6.890443059e-01, 4.747820555e-01, 3.271458719e-01,
                                2.254180002e-01, 1.553229895e-01, 1.070244215e-01, 7.374456821e-02,
                                5.081327482e-02, 3.170569618e-02, 1.933500113e-02, 1.159204926e-02,
                                6.794959490e-03, 3.860359317e-03, 2.093792379e-03, 1.052602101e-03,
                                4.564839192e-04, 1.293187012e-04, 3.830881237e-05, 2.639646903e-05,
                                1.818833668e-05, 1.253256982e-05, 8.635495875e-06, 5.950239261e-06,
                                4.099978482e-06, 2.825066827e-06, 1.946596211e-06, 1.341291035e-06,
                                9.242089502e-07, 6.368209146e-07, 4.387978251e-07, 3.023511428e-07};
  const std::vector<float> got = yarn_inverse_frequency(kGptOss, 64);
  ASSERT_EQ(got.size(), 32u);
  for (size_t k = 0; k < 32; ++k) EXPECT_NEAR(double(got[k]) / kWant[k], 1, 1e-7) << k;
  EXPECT_FLOAT_EQ(yarn_concentration(kGptOss), 1.3465735902799727f);
}

// The ends of the ramp rounded to whole pairs, 8 and 18: not what this family wants, but others do.
TEST(Yarn, truncated) {
  Yarn yarn = kGptOss;
  yarn.truncate = true;
  const std::vector<float> got = yarn_inverse_frequency(yarn, 64);
  EXPECT_NEAR(double(got[9]), 3.162075e-02, 1e-8);
  EXPECT_NEAR(double(got[17]), 2.279478e-04, 1e-10);
}

TEST(Yarn, plain_rotation_without_a_factor) {
  const Yarn yarn = {.factor = 1};
  EXPECT_EQ(yarn_concentration(yarn), 1.0f);
  EXPECT_NEAR(double(yarn_inverse_frequency(yarn, 64)[31]), std::pow(150000.0, -62.0 / 64), 1e-12);
}

// A query whose first half is ones, after the rotation: its first half is the cosines, its second the sines.
std::vector<float> rotated_ones(Rig& rig, DType type, const Batch& batch, int pages) {
  std::vector<float> x(3 * 64);
  std::fill_n(x.begin(), 32, 1.0f);
  const Tensor qkv = rig.put(type, {1, 3 * 64}, x);
  rig.run(rig.ops().rope_store,
          RopeStore{.qkv = qkv,
                    .kv = {rig.empty(DType::bf16, {pages, 1, 2, kPageSize * 64}), Pool::full},
                    .batch = &batch,
                    .rope = {rig.put(DType::f32, {32}, yarn_inverse_frequency(kGptOss, 64)),
                             yarn_concentration(kGptOss)},
                    .heads = 1,
                    .head_dim = 64});
  return rig.read(qkv).at;
}

// What queries and keys are multiplied by. The angle is a product of f32 numbers, which shows far out.
TEST(Yarn, cosines_and_sines_at_their_positions) {
  struct Row {
    int position, pair;
    double cos, sin;
  };
  constexpr Row kRows[] = {
      {0, 0, 1.34657359, 0},
      {0, 31, 1.34657359, 0},
      {1, 0, 0.72755677, 1.13310254},
      {1, 9, 1.34589684, 0.04268690},
      {1, 17, 1.34657359, 0.00017414},
      {127, 0, 0.31288862, 1.30971801},
      {127, 9, -0.85273898, -1.04215956},
      {4096, 0, 1.08263254, -0.80072922},
      {4096, 17, 1.16204453, 0.68037689},
      {131071, 0, -1.10147500, -0.77460527},
      {131071, 31, 1.34551632, 0.05335003},
  };
  for (const Ops* ops : available_ops())
    for (const Row& row : kRows) {
      SCOPED_TRACE(strf("%s position=%d pair=%d", ops->name, row.position, row.pair));
      Rig rig(*ops);
      Batch batch = Paging(1, 1, 128, 1).step(rig, {{0, 0, 1}});
      batch.positions = rig.put(DType::i32, {1}, {float(row.position)});
      const int width = row.position / kPageSize + 1;  // all of it one page
      batch.pages[int(Pool::full)] =
          rig.put(DType::i32, {1, width}, std::vector<float>(size_t(width), 1));
      const std::vector<float> y = rotated_ones(rig, DType::f32, batch, 2);
      EXPECT_NEAR(double(y[size_t(row.pair)]), row.cos, 5e-7);
      EXPECT_NEAR(double(y[size_t(row.pair + 32)]), row.sin, 5e-7);
    }
}

// In bf16 cosines and sines are rounded before they are used.
TEST(Yarn, rounded_with_bf16_activations) {
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    Rig rig(*ops);
    const Batch batch = Paging(1, 128, 128, 1).step(rig, {{0, 127, 1}});
    const std::vector<float> y = rotated_ones(rig, DType::bf16, batch, 3);
    EXPECT_EQ(y[0], 0.3125f);
    EXPECT_EQ(y[32], 1.3125f);
    EXPECT_EQ(y[9], -0.8515625f);
    EXPECT_EQ(y[41], -1.0390625f);
  }
}

}  // namespace
}  // namespace rose
