#include "kernels/gather/gather.h"

#include "testing/rig.h"

namespace rose {
namespace {

using namespace testing;

TEST(Gather, takes_the_rows_in_their_order) {
  Rig rig(reference_ops());
  const Tensor y = rig.empty(DType::bf16, {2, 2});
  rig.run(rig.ops().gather, Gather{.y = y,
                                   .x = rig.put(DType::bf16, {3, 2}, {1, 2, 3, 4, 5, 6}),
                                   .rows = rig.put(DType::i32, {2}, {2, 1})});
  EXPECT_EQ(rig.read(y).at, (std::vector<float>{5, 6, 3, 4}));
}

TEST(Gather, backends_agree_with_the_reference) {
  constexpr int kShapes[][3] = {{1, 1, 8}, {3, 70, 192}, {64, 65, 2880}, {0, 5, 16}};
  for (const Ops* ops : backends())
    for (const DType type : {DType::f32, DType::bf16})
      for (const auto& [samples, tokens, hidden] : kShapes) {
        SCOPED_TRACE(
            strf("%s %s %d of [%d, %d]", ops->name, name_of(type), samples, tokens, hidden));
        const auto gathered = [&, samples = samples, tokens = tokens,
                               hidden = hidden](const Ops& on) {
          Rig rig(on);
          std::vector<float> rows;
          for (int i = 0; i < samples; ++i) rows.push_back(float((i * 29 + tokens - 1) % tokens));
          const Tensor y = rig.empty(type, {samples, hidden});
          rig.run(on.gather, Gather{.y = y,
                                    .x = rig.normal(type, {tokens, hidden}, 1),
                                    .rows = rig.put(DType::i32, {samples}, rows)});
          return rig.read(y);
        };
        EXPECT_TRUE(close(gathered(*ops), gathered(reference_ops())));
      }
}

}  // namespace
}  // namespace rose
