// A taught text gives the logits that a plain forward pass over it gives, however it is cut.
#include "engine/teacher.h"

#include <gtest/gtest.h>

#include "testing/model_rig.h"

namespace rose {
namespace {

constexpr const char* kTiny = ROSE_SOURCE_DIR "/tests/golden/tiny";

std::vector<int> text_of(int tokens, int vocab) {
  std::vector<int> text;
  for (int i = 0; i < tokens; ++i) text.push_back((i * 37 + 5) % vocab);
  return text;
}

TEST(Teacher, rows_are_those_of_one_pass_however_the_text_is_cut) {
  const Ops& ops = reference_ops();
  testing::ModelRig plain(ops, "f32", kTiny);
  const int vocab = plain.config().vocab;
  const std::vector<int> text = text_of(70, vocab);
  const testing::Values want = plain.run(text).logits[0];

  ThreadPool threads(1);
  Arena scratch(*ops.device);
  Stream stream = {.device = ops.device, .threads = &threads, .scratch = &scratch};
  LoadOptions options;
  options.model = kTiny;
  const auto loaded = load_model(options, **find_recipe("f32"), stream, ops);
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (const int step : {1, 7, 64, 1000}) {
    auto teacher = Teacher::make(*loaded, stream, 70, step);
    ASSERT_TRUE(teacher) << teacher.error().message;
    for (const int first : {0, 33, 69}) {
      SCOPED_TRACE(::testing::Message() << "steps of " << step << ", from row " << first);
      teacher->begin(text, first);
      int row = first;
      for (TaughtRows rows = teacher->next(); rows.count > 0; rows = teacher->next()) {
        ASSERT_EQ(rows.first, row);
        for (int i = 0; i < rows.count * vocab; ++i)
          ASSERT_EQ(rows.logits[i], want.at[size_t(row * vocab + i)]) << i;
        row += rows.count;
      }
      EXPECT_EQ(row, 70);
    }
  }
}

}  // namespace
}  // namespace rose
