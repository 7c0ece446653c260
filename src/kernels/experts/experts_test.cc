#include "kernels/experts/experts.h"

#include "base/rng.h"
#include "tensor/bf16.h"
#include "testing/rig.h"

namespace rose {
namespace {

using namespace testing;

constexpr Format kExpertFormats[] = {Format::bf16,     Format::q8,        Format::mxfp4,
                                     Format::mxfp4_q8, Format::mxfp4_fp8, Format::fp8_block};

// Gate and up through the bias of one expert with no weights; the second matrix passes 32 values on.
Values gated(const Ops& ops, const std::vector<float>& gate_up, float limit) {
  Rig rig(ops);
  const int ffn = 32, hidden = 32;
  std::vector<uint16_t> zero(size_t(2 * ffn * hidden)), identity(size_t(hidden * ffn));
  for (int i = 0; i < ffn; ++i) identity[size_t(i * ffn + i)] = to_bf16(1).bits;
  std::vector<float> bias = gate_up;
  bias.resize(size_t(2 * ffn));
  const auto raw = [](int rows, int columns, const std::vector<uint16_t>& values) {
    return RawWeight{.rows = rows,
                     .columns = columns,
                     .values = reinterpret_cast<const uint8_t*>(values.data())};
  };
  const Tensor y = rig.empty(DType::f32, {1, 1, hidden});
  rig.run(ops.experts,
          Experts{.y = y,
                  .x = rig.normal(DType::f32, {1, hidden}, 1),
                  .experts = rig.put(DType::i32, {1, 1}, {0}),
                  .gate_up = rig.pack(Format::bf16, raw(2 * ffn, hidden, zero)),
                  .gate_up_bias = rig.put(DType::f32, {1, 2 * ffn}, bias),
                  .down = rig.pack(Format::bf16, raw(hidden, ffn, identity)),
                  .down_bias = rig.put(DType::f32, {1, hidden}, std::vector<float>(32)),
                  .limit = limit});
  Values values = rig.read(y);
  values.at.resize(gate_up.size() / 2);
  values.dims = {int64_t(values.at.size())};
  return values;
}

TEST(Experts, the_gate_by_hand) {
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    const Values want = {{8},
                         {0, 0.845795766f, 2.537387298f, 55.999625026f, 0.000002435f, -0.616816936f,
                          0, -11.613951739f}};
    EXPECT_TRUE(close(gated(*ops, {0, 0, 1, 0, 1, 2, 10, 10, -10, -10, -1, 3, 7, -1, 2, -8}, 7),
                      want, {.absolute = 1e-9, .relative = 1e-6}));
    EXPECT_TRUE(close(gated(*ops, {10, 10}, 2), {{1}, {2 / (1 + std::exp(-3.404f)) * 3}},
                      {.relative = 1e-6}));
    // Far out on both sides: the gate is not clamped from below, and must not become NaN.
    EXPECT_TRUE(close(gated(*ops, {-1e4f, 1, 1e30f, -1e30f}, 7), {{2}, {0, -41.99971877f}},
                      {.absolute = 1e-30, .relative = 1e-6}));
  }
}

// The inputs and the first matrix are not negative, so gates and ups are sums of magnitudes: their
// relative error is that of the sum, and the result of the magnitudes of the second matrix bounds the
// error of the whole.
struct ExpertsProblem {
  int tokens, experts, top_k, hidden, ffn;
  bool one_expert = false;  // every token's first is expert 1
};

enum class Of {
  result,
  magnitudes,
  saturated
};  // |W2| and |b2|; and with every gate and up at its limit

Values result(const Ops& ops, const ExpertsProblem& p, Format format, DType type, Of of) {
  Rig rig(ops);
  const auto normals = [](int64_t count, uint64_t key, bool magnitudes, float size) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      const float x = size * normal_number(key, uint64_t(i));
      values.push_back(magnitudes ? std::fabs(x) : x);
    }
    return values;
  };
  std::vector<float> chosen;
  for (int token = 0; token < p.tokens; ++token) {
    const int first = p.one_expert ? 1 : int(random_bits(2, uint64_t(token)) % uint64_t(p.experts));
    for (int i = 0; i < p.top_k; ++i) chosen.push_back(float((first + i * 3) % p.experts));
  }
  std::vector<float> bias = normals(int64_t(p.experts) * 2 * p.ffn, 3, true, 0.5f);
  if (of == Of::saturated) bias.assign(bias.size(), 100);
  const bool magnitudes = of != Of::result;
  const Tensor y = rig.empty(type, {p.tokens, p.top_k, p.hidden});
  rig.run(
      ops.experts,
      Experts{.y = y,
              .x = rig.put(type, {p.tokens, p.hidden}, normals(p.tokens * p.hidden, 1, true, 1)),
              .experts = rig.put(DType::i32, {p.tokens, p.top_k}, chosen),
              .gate_up = rig.weight(format, p.experts, 2 * p.ffn, p.hidden,
                                    {11, 3.0f / float(p.hidden), true}),
              .gate_up_bias = rig.put(DType::f32, {p.experts, 2 * p.ffn}, bias),
              .down = rig.weight(format, p.experts, p.hidden, p.ffn, {12, 0.1f, magnitudes}),
              .down_bias = rig.put(DType::f32, {p.experts, p.hidden},
                                   normals(p.experts * p.hidden, 13, magnitudes, 1))});
  return rig.read(y);
}

// One token (decoding), few, a chunk with several tokens an expert, all tokens on one expert, experts
// without tokens, the demo model's sizes, a ragged width, no tokens.
constexpr ExpertsProblem kProblems[] = {
    {1, 4, 2, 64, 64},   {1, 16, 4, 192, 192}, {3, 16, 4, 192, 192},     {40, 16, 4, 192, 96},
    {70, 4, 2, 96, 160}, {2, 8, 1, 32, 32},    {33, 5, 2, 64, 64, true}, {0, 4, 2, 64, 64},
};

Values scaled(Values values, double factor) {
  for (float& value : values.at) value = float(double(value) * factor);
  return values;
}

TEST(Experts, backends_agree_with_the_reference) {
  for (const Format format : kExpertFormats)
    for (const DType type : {DType::f32, DType::bf16})
      for (const ExpertsProblem& p : kProblems) {
        const Values want = result(reference_ops(), p, format, type, Of::result);
        const Values sums = result(reference_ops(), p, format, type, Of::magnitudes);
        // Relative to the gate and the up, `a` moves by at most 1.3 and 1 times their error; then the
        // exponential, and the second sum.
        const double exact = 2.3 * Tolerance::dot(p.hidden) + Tolerance::dot(p.ffn) + 0x1p-20;
        const Values tight = scaled(sums, exact);
        // Where `a` is rounded or quantised, so small an error may carry one of its numbers over an edge:
        // rarely, so most results are as tight; then by a unit of bf16, or by one code of 127.
        const bool int8 = format == Format::q8 || format == Format::mxfp4_q8;
        const bool edges = int8 || type == DType::bf16;
        Values loose = scaled(sums, exact + (type == DType::bf16 ? 0x1p-6 : 0));
        if (int8) {
          const Values limits = result(reference_ops(), p, format, type, Of::saturated);
          for (size_t i = 0; i < loose.at.size(); ++i) loose.at[i] += limits.at[i] / 127;
        }

        // x and `a` may be rounded to E4M3: each by up to 2^-4, together by far less.
        const bool e4m3 =
            (format == Format::mxfp4_fp8 || format == Format::fp8_block) && type == DType::bf16;

        for (const Ops* ops : backends()) {
          if (!keeps(*ops, format)) continue;
          SCOPED_TRACE(strf("%s %s %s %d tokens, %d of %d experts of [%d, %d]", ops->name,
                            name_of(format), name_of(type), p.tokens, p.top_k, p.experts, p.ffn,
                            p.hidden));
          const Values got = result(*ops, p, format, type, Of::result);
          if (e4m3) {
            EXPECT_TRUE(close(got, want, scaled(sums, exact + 1.1 * 3.3 * 0x1p-4)));
            if (!want.at.empty()) {
              EXPECT_LE(relative_error(got, want), 0.08);
            }
            continue;
          }
          EXPECT_TRUE(close(got, want, edges ? loose : tight, Tolerance::rounding(type)));
          EXPECT_LE(apart(got, want, tight, Tolerance::rounding(type)),
                    int64_t(want.at.size()) / 4);
        }
      }
}

TEST(Experts, a_token_does_not_depend_on_its_neighbours) {
  for (const Ops* ops : available_ops())
    for (const Format format : kExpertFormats) {
      if (!keeps(*ops, format)) continue;
      SCOPED_TRACE(strf("%s %s", ops->name, name_of(format)));
      Rig rig(*ops);
      const int tokens = 37, experts = 6, hidden = 64, ffn = 96, top_k = 2;
      std::vector<float> chosen;
      for (int i = 0; i < tokens * top_k; ++i) chosen.push_back(float((i / 2 + i % 2 * 2) % 5));
      Experts op = {.y = rig.empty(DType::f32, {tokens, top_k, hidden}),
                    .x = rig.normal(DType::f32, {tokens, hidden}, 1),
                    .experts = rig.put(DType::i32, {tokens, top_k}, chosen),
                    .gate_up = rig.weight(format, experts, 2 * ffn, hidden, {3, 0.2f}),
                    .gate_up_bias = rig.normal(DType::f32, {experts, 2 * ffn}, 4),
                    .down = rig.weight(format, experts, hidden, ffn, {5, 0.2f}),
                    .down_bias = rig.normal(DType::f32, {experts, hidden}, 6)};
      rig.run(ops->experts, op);
      const Values together = rig.read(op.y);
      const Tensor alone = rig.empty(DType::f32, {tokens, top_k, hidden});
      for (int i = 0; i < tokens; ++i) {
        Experts one = op;
        one.y = alone.rows(i, 1);
        one.x = op.x.rows(i, 1);
        one.experts = op.experts.rows(i, 1);
        rig.run(ops->experts, one);
      }
      EXPECT_TRUE(close(rig.read(alone), together));
    }
}

}  // namespace
}  // namespace rose
