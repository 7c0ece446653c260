// The demo model against logits and hidden states of transformers in float32 (tests/golden/demo.safetensors;
// prompt 7, 2,348 tokens, is many windows and pages long).
#include <gtest/gtest.h>

#include <cstring>

#include "tensor/safetensors.h"
#include "testing/model_rig.h"

namespace rose {
namespace {

using namespace testing;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSlow = true;  // an instrumented build: the short prompts
#else
constexpr bool kSlow = false;
#endif

class Golden {
 public:
  Golden() {
    Result<Safetensors> file = Safetensors::open(ROSE_SOURCE_DIR "/tests/golden/demo.safetensors");
    ROSE_CHECK(file.has_value(), "%s", file.error().message.c_str());
    file_ = std::move(*file);
  }

  // ids, rows, logits or argmax of a prompt.
  Values operator()(const std::string& what, int prompt) const {
    const SafetensorsEntry& entry = file_.entries().at(what + std::to_string(prompt));
    Values values = {entry.shape, {}};
    const auto bytes = file_.bytes(entry);
    for (size_t i = 0; i < bytes.size(); i += 4) {
      float number;
      int32_t integer;
      std::memcpy(&number, &bytes[i], 4);
      std::memcpy(&integer, &bytes[i], 4);
      values.at.push_back(entry.dtype == "I32" ? float(integer) : number);
    }
    return values;
  }

  Prompt prompt(int i) const {
    const Values ids = (*this)("ids", i);
    return Prompt(ids.at.begin(), ids.at.end());
  }

 private:
  Safetensors file_;
};

Values rows_of(const Values& values, const Values& rows) {
  Values some = {{rows.dims[0], values.dims[1]}, {}};
  for (const float row : rows.at) {
    const auto begin = values.at.begin() + int64_t(row) * values.dims[1];
    some.at.insert(some.at.end(), begin, begin + values.dims[1]);
  }
  return some;
}

// At every position the golden's most likely token must be ours, or so close behind that logits with this
// relative error may change places: five standard deviations of the difference of two.
void expect_same_argmax(const Values& logits, const Values& want, double error) {
  const int vocab = int(logits.dims[1]);
  for (size_t row = 0; row < want.at.size(); ++row) {
    const float* at = logits.at.data() + row * size_t(vocab);
    double squares = 0;
    for (int i = 0; i < vocab; ++i) squares += double(at[i]) * at[i];
    const double behind = double(at[largest(at, vocab)] - at[int(want.at[row])]);
    EXPECT_LE(behind, 5 * std::sqrt(2) * error * std::sqrt(squares / vocab)) << "position " << row;
  }
}

void expect_golden(const Ops& ops, const char* recipe, double error, int prompts) {
  SCOPED_TRACE(strf("%s %s", ops.name, recipe));
  const Golden golden;
  ModelRig rig(ops, recipe, ROSE_SOURCE_DIR "/models/demo");
  for (int i = 0; i < prompts; ++i) {
    SCOPED_TRACE(strf("prompt %d", i));
    const Outcome pass = rig.run(golden.prompt(i));
    EXPECT_LE(relative_error(rows_of(pass.logits[0], golden("rows", i)), golden("logits", i)),
              error);
    expect_same_argmax(pass.logits[0], golden("argmax", i), error);
    if (i != 2) continue;

    const Values hidden = golden("hidden", i);  // [7, tokens, hidden]
    ASSERT_EQ(int64_t(pass.watched.size()), hidden.dims[0]);
    for (size_t layer = 0; layer < pass.watched.size(); ++layer) {
      const Values& got = pass.watched[layer];
      const auto begin = hidden.at.begin() + int64_t(layer * got.at.size());
      const Values want = {got.dims, {begin, begin + int64_t(got.at.size())}};
      EXPECT_LE(relative_error(got, want), error) << "entering layer " << layer;
    }
  }
}

TEST(Demo, the_reference_in_f32) { expect_golden(reference_ops(), "f32", 1e-4, kSlow ? 3 : 8); }

TEST(Demo, every_backend_in_f32) {
  for (const Ops* ops : backends()) expect_golden(*ops, "f32", 1e-4, kSlow ? 5 : 8);
}

// All prompts on the fastest table; the reference takes a second for every 100 tokens.
TEST(Demo, every_backend_in_bf16) {
  const std::vector<const Ops*> all = available_ops();
  for (const Ops* ops : all)
    expect_golden(*ops, "bf16", 2e-2, ops == all.back() ? (kSlow ? 5 : 8) : kSlow ? 1 : 4);
}

}  // namespace
}  // namespace rose
