// The demo model against logits and hidden states of transformers in float32 (tests/golden/demo.safetensors;
// prompt 7, 2,348 tokens, is many windows and pages long).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tensor/safetensors.h"
#include "testing/model_rig.h"
#include "testing/watched.h"

namespace rose {
namespace {

using namespace testing;

constexpr const char* kDemoModel = ROSE_SOURCE_DIR "/models/demo";

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

// Of the relative errors of the rows.
double median_error(const Values& got, const Values& want) {
  std::vector<double> errors;
  const int64_t width = want.dims[1];
  for (int64_t row = 0; row < want.dims[0]; ++row) {
    double apart = 0, size = 0;
    for (int64_t i = row * width; i < (row + 1) * width; ++i) {
      const double x = double(want.at[size_t(i)]);
      apart += (double(got.at[size_t(i)]) - x) * (double(got.at[size_t(i)]) - x);
      size += x * x;
    }
    errors.push_back(std::sqrt(apart / size));
  }
  std::nth_element(errors.begin(), errors.begin() + int64_t(errors.size() / 2), errors.end());
  return errors[errors.size() / 2];
}

// The most likely token of each position must be the golden's wherever its margin allows: an error of this
// share of a row moves the difference of two logits by at most sqrt(2) error |row|. `exact` has the row in
// f32, which the golden file has of a few positions only.
void expect_same_argmax(const Values& logits, const Values& exact, const Values& want,
                        double error) {
  const int vocab = int(logits.dims[1]);
  int decided = 0;
  for (size_t row = 0; row < want.at.size(); ++row) {
    const float* x = exact.at.data() + row * size_t(vocab);
    const int first = int(want.at[row]);
    double second = -INFINITY, squares = 0;
    for (int i = 0; i < vocab; ++i) {
      if (i != first) second = std::max(second, double(x[i]));
      squares += double(x[i]) * double(x[i]);
    }
    if (double(x[first]) - second <= std::sqrt(2 * squares) * error) continue;
    EXPECT_EQ(largest(logits.at.data() + row * size_t(vocab), vocab), first) << "position " << row;
    ++decided;
  }
  EXPECT_GE(decided, int(want.at.size()) / 3);  // or the error is too wide to say anything
}

// The logits of a prompt in f32, by the fastest table (which the tests in f32 check).
const Values& exact_logits(int i) {
  static std::map<int, Values> known;
  static ModelRig rig(*available_ops().back(), "f32", kDemoModel);
  if (!known.contains(i)) known[i] = rig.run(Golden().prompt(i)).logits[0];
  return known[i];
}

// Each prompt is within `error`. Not every row is: in bf16 a near tie of the router may send a token to another
// expert, which moves its logits by more than roundings do. Where the ties fall depends on the order of sums:
// those of a GPU are judged by all prompts together and the median row of each.
void expect_golden(const Ops& ops, const char* recipe, double error, int prompts) {
  SCOPED_TRACE(strf("%s %s", ops.name, recipe));
  const Golden golden;
  ModelRig rig(ops, recipe, kDemoModel);
  const bool is_exact = std::string(recipe) == "f32";
  const bool is_host = ops.device == &host_device();
  Values all, all_want;
  for (int i = 0; i < prompts; ++i) {
    SCOPED_TRACE(strf("prompt %d", i));
    const Outcome ran = rig.run(golden.prompt(i));
    const Values got = rows_of(ran.logits[0], golden("rows", i)), want = golden("logits", i);
    EXPECT_LE(median_error(got, want), error);
    if (is_exact || is_host) {
      EXPECT_LE(relative_error(got, want), error);
    }
    all.at.insert(all.at.end(), got.at.begin(), got.at.end());
    all_want.at.insert(all_want.at.end(), want.at.begin(), want.at.end());
    expect_same_argmax(ran.logits[0], is_exact ? ran.logits[0] : exact_logits(i),
                       golden("argmax", i), error);
    if (i != 2) continue;

    const Values hidden = golden("hidden", i);  // [7, tokens, hidden]
    ASSERT_EQ(int64_t(ran.watched.size()), hidden.dims[0]);
    for (size_t layer = 0; layer < ran.watched.size(); ++layer) {
      const Values& x = ran.watched[layer];
      const auto begin = hidden.at.begin() + int64_t(layer * x.at.size());
      EXPECT_LE(median_error(x, {x.dims, {begin, begin + int64_t(x.at.size())}}), error)
          << "entering layer " << layer;
    }
  }
  EXPECT_LE(relative_error(all, all_want), error);
}

// The reference takes seconds for a thousand tokens; the other tables take the long prompts as well.
TEST(Demo, the_reference_in_f32) { expect_golden(reference_ops(), "f32", 1e-4, watched() ? 3 : 8); }

TEST(Demo, the_reference_in_bf16) {
  expect_golden(reference_ops(), "bf16", 2e-2, watched() ? 1 : 4);
}

TEST(Demo, every_backend_in_f32) {
  for (const Ops* ops : backends()) expect_golden(*ops, "f32", 1e-4, watched() ? 3 : 8);
}

TEST(Demo, every_backend_in_bf16) {
  for (const Ops* ops : backends()) expect_golden(*ops, "bf16", 2e-2, watched() ? 3 : 8);
}

}  // namespace
}  // namespace rose
