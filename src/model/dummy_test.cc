#include "model/dummy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/check.h"
#include "model/loader.h"
#include "testing/paging.h"

namespace rose {
namespace {

// What dummy weights are for: a pass over them does what a pass over real ones does.
TEST(DummyWeights, activations_stay_moderate_and_logits_look_like_logits) {
  constexpr int kTokens = 24;
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    testing::Rig rig(*ops);
    const Recipe& recipe = **find_recipe("bf16");
    const auto loaded =
        load_model({.model = ROSE_SOURCE_DIR "/models/demo", .load_format = "dummy"}, recipe,
                   rig.stream(), *ops);
    ASSERT_TRUE(loaded) << loaded.error().message;
    const Model& model = *loaded->model;

    const testing::Paging paging(1, kTokens, model.config().window, 1);
    const int pages[kPools] = {paging.pages(), paging.pages()};
    const auto kv = KvCache::allocate(*ops->device, model.kv_spec(recipe.kv), pages);
    ASSERT_TRUE(kv) << kv.error().message;
    std::vector<int> ids(kTokens);
    std::iota(ids.begin(), ids.end(), 100);
    const Batch batch = paging.step(rig, {{0, 0, kTokens}}, {ids});
    Pass pass{.ops = *ops,
              .stream = rig.stream(),
              .kv = *kv,
              .batch = batch,
              .activations = recipe.activations};
    std::vector<testing::Values> states;
    pass.watch = [&](const Tensor& x) { states.push_back(rig.read(x)); };
    const testing::Values logits = rig.read(model.forward(pass));

    const auto size = [](const testing::Values& values) {
      double squares = 0;
      for (const float value : values.at) squares += double(value) * value;
      return std::sqrt(squares / double(values.at.size()));
    };
    for (const testing::Values& state : states) {
      EXPECT_GT(size(state), 0.5);
      EXPECT_LT(size(state), 20);
    }
    EXPECT_GT(size(logits), 0.5);
    EXPECT_LT(size(logits), 2);
    // Tokens remain different: nothing has collapsed into one direction.
    std::set<int64_t> answers;
    for (int token = 0; token < kTokens; ++token) {
      const auto row = logits.at.begin() + token * model.config().vocab;
      answers.insert(std::max_element(row, row + model.config().vocab) - row);
    }
    EXPECT_GT(answers.size(), kTokens / 2u);
  }
}

}  // namespace
}  // namespace rose
