#include "kernels/embed/embed.h"

#include "testing/rig.h"

namespace rose {
namespace {

using namespace testing;

TEST(Embed, takes_the_row_of_each_token) {
  Rig rig(reference_ops());
  const Tensor y = rig.empty(DType::f32, {3, 2});
  rig.run(rig.ops().embed, Embed{.y = y,
                                 .token_ids = rig.put(DType::i32, {3}, {2, 0, 2}),
                                 .table = rig.put(DType::bf16, {3, 2}, {1, 2, 3, 4, 5, -6})});
  EXPECT_EQ(rig.read(y).at, (std::vector<float>{5, -6, 1, 2, 5, -6}));
}

TEST(Embed, takes_what_the_step_before_drew) {
  for (const Ops* ops : available_ops()) {
    Rig rig(*ops);
    const Tensor y = rig.empty(DType::f32, {4, 2});
    rig.run(rig.ops().embed, Embed{.y = y,
                                   .token_ids = rig.put(DType::i32, {4}, {-2, 1, -1, -3}),
                                   .newest = rig.put(DType::i32, {3}, {1, 2, -1}),
                                   .table = rig.put(DType::bf16, {3, 2}, {1, 2, 3, 4, 5, -6})});
    EXPECT_EQ(rig.read(y).at, (std::vector<float>{5, -6, 3, 4, 3, 4, 1, 2})) << ops->name;
  }
}

// A copy: bit for bit.
TEST(Embed, backends_agree_with_the_reference) {
  constexpr int kShapes[][3] = {{1, 7, 8}, {5, 300, 192}, {130, 64, 2880}, {0, 9, 16}};
  for (const Ops* ops : backends())
    for (const DType type : {DType::f32, DType::bf16})
      for (const auto& [tokens, vocab, hidden] : kShapes) {
        SCOPED_TRACE(strf("%s %s [%d, %d] of %d", ops->name, name_of(type), tokens, hidden, vocab));
        const auto embedded = [&, tokens = tokens, vocab = vocab, hidden = hidden](const Ops& on) {
          Rig rig(on);
          std::vector<float> ids;
          for (int i = 0; i < tokens; ++i) ids.push_back(float((i * 37 + vocab - 1) % vocab));
          const Tensor y = rig.empty(type, {tokens, hidden});
          rig.run(on.embed, Embed{.y = y,
                                  .token_ids = rig.put(DType::i32, {tokens}, ids),
                                  .table = rig.normal(DType::bf16, {vocab, hidden}, 1)});
          return rig.read(y);
        };
        EXPECT_TRUE(close(embedded(*ops), embedded(reference_ops())));
      }
}

}  // namespace
}  // namespace rose
