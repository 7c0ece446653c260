#include "cli/op_recorder.h"

#include <gtest/gtest.h>

#include <map>

#include "kernels/gather/gather.h"
#include "testing/model_rig.h"

namespace rose {
namespace {

constexpr const char* kTiny = ROSE_SOURCE_DIR "/tests/golden/tiny";

TEST(OpRecorder, every_op_of_a_step_is_remembered_with_its_cost) {
  OpRecorder recorder(reference_ops(), 3, 5);
  testing::ModelRig rig(recorder.table(), "f32", kTiny);
  const testing::Values logits = rig.run({1, 2, 3, 4, 5}).logits[0];
  EXPECT_EQ(logits.at,
            testing::ModelRig(reference_ops(), "f32", kTiny).run({1, 2, 3, 4, 5}).logits[0].at);

  std::map<std::string, int> counts;
  for (const RecordedOp& call : recorder.calls) ++counts[call.name];
  // No gather: every row is sampled.
  EXPECT_EQ(counts, (std::map<std::string, int>{{"embed", 1},
                                                {"rms_norm", 3},
                                                {"matmul", 5},
                                                {"attend", 2},
                                                {"route", 2},
                                                {"experts", 2}}));
  const auto first = [&](const std::string& name) {
    for (const RecordedOp& call : recorder.calls)
      if (call.name == name) return call;
    return RecordedOp{};
  };
  const RecordedOp qkv = first("matmul");
  EXPECT_EQ(qkv.shape, "5 x 64 -> 128, bf16");
  EXPECT_EQ(qkv.cost.bytes, 128 * 64 * 2 + 5 * 64 * 4 + 5 * 128 * 4);
  EXPECT_EQ(qkv.cost.flops, 2 * 5 * 64 * 128);
  const RecordedOp attend = first("attend");  // four heads of 16, two of keys; all keys in f32
  EXPECT_EQ(attend.shape, "5 tokens, 3 keys each, sliding");
  EXPECT_EQ(attend.cost.bytes, (5 + 5) * 2 * 2 * 16 * 4 + 5 * 128 * 4 + 5 * 64 * 4);
  EXPECT_EQ(attend.cost.flops, 4 * 5 * 64 * 3);
  const RecordedOp experts = first("experts");  // ffn 64
  EXPECT_EQ(experts.cost.flops, 2 * 5 * 2 * 3 * 64 * 64);
}

// What bench kernels does: the same call again, on the same numbers.
TEST(OpRecorder, a_call_can_be_run_again) {
  OpRecorder recorder(reference_ops(), 0, 0);
  testing::Rig rig(recorder.table());
  const Tensor x = rig.put(DType::f32, {1, 2}, {3, 4}), y = rig.empty(DType::f32, {1, 2});
  rig.run(rig.ops().gather, Gather{.y = y, .x = x, .rows = rig.put(DType::i32, {1}, {0})});
  rig.stream().device->zero(rig.stream(), y.data, y.bytes());
  ASSERT_EQ(recorder.calls.size(), 1u);
  recorder.calls[0].run(rig.stream());
  EXPECT_EQ(rig.read(y).at, (std::vector<float>{3, 4}));
  EXPECT_EQ(recorder.calls.size(), 1u);  // and is not remembered again
}

}  // namespace
}  // namespace rose
