// A step of one token in one launch (kernels/decode), against the ops one by one in f32 on the same packed weights.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "kernels/decode/decode.h"
#include "testing/model_rig.h"

namespace rose {
namespace {

using namespace testing;

constexpr const char* kDemoFolder = ROSE_SOURCE_DIR "/models/demo";

// Those that have it.
std::vector<const Ops*> at_once() {
  std::vector<const Ops*> some;
  for (const Ops* ops : available_ops())
    if (ops->decode) some.push_back(ops);
  return some;
}

// Chunks, and between them single tokens: the first of all, around the edges of steps of keys, of pages and of the
// window, and with more keys than one block takes.
struct Schedule {
  std::vector<Step> steps;
  std::vector<int> single;  // positions that are fed alone

  Schedule() {
    int fed = 0;
    const auto feed = [&](int to, bool alone) {
      while (fed < to) {
        const int count = alone ? 1 : to - fed;
        steps.push_back({{0, fed, count}});
        if (alone) single.push_back(fed);
        fed += count;
      }
    };
    for (const auto& [from, to] :
         {std::pair(0, 19), {31, 34}, {62, 66}, {126, 132}, {190, 193}, {255, 258}, {2300, 2310}})
      feed(from, false), feed(to, true);
  }
};

double row_error(const Values& got, const Values& want, int row) {
  double apart = 0, size = 0;
  for (int64_t i = row * want.dims[1]; i < (row + 1) * want.dims[1]; ++i) {
    const double x = double(want.at[size_t(i)]), difference = double(got.at[size_t(i)]) - x;
    apart += difference * difference, size += x * x;
  }
  return std::sqrt(apart / size);
}

// Three quarters of the rows are this close to f32. Not every row is: a near tie of the router may fall the other way
// (docs/numbers.md).
double third_quartile(const Values& got, const Values& want, const std::vector<int>& rows,
                      std::string& all) {
  std::vector<double> errors;
  for (const int row : rows) {
    errors.push_back(row_error(got, want, row));
    all += strf(" %d:%.4f", row, errors.back());
  }
  const auto at = errors.begin() + int64_t(errors.size() * 3 / 4);
  std::nth_element(errors.begin(), at, errors.end());
  return *at;
}

// It may add other roundings than the ops by themselves, but not larger ones.
void expect_decodes(const Ops& ops, const LoadOptions& options) {
  Recipe exact = **find_recipe("mxfp4");
  exact.activations = exact.kv = DType::f32;
  const Schedule schedule;
  Prompt prompt;
  for (int i = 0; i < 2310; ++i) prompt.push_back((i * 37 + i * i % 11) % 2000);
  const Values want = ModelRig(ops, exact, options).run(prompt).logits[0];
  ModelRig rig(ops, **find_recipe("mxfp4"), options);
  const Values by_op = rig.run({prompt}, schedule.steps).logits[0];
  rig.watches = false;
  const Values got = rig.run({prompt}, schedule.steps).logits[0];
  std::string all, all_by_op;
  EXPECT_LE(third_quartile(got, want, schedule.single, all),
            1.1 * third_quartile(by_op, want, schedule.single, all_by_op))
      << all << "\nop by op" << all_by_op;
}

class DecodeAtOnce : public ::testing::Test {
  void SetUp() override {
    if (at_once().empty()) GTEST_SKIP() << "no backend of this computer does all layers at once";
  }
};

TEST_F(DecodeAtOnce, demo) {
  for (const Ops* ops : at_once()) expect_decodes(*ops, {.model = kDemoFolder});
}

TEST_F(DecodeAtOnce, sizes_of_the_published_models) {
  Result<Json> config = parse_json(*read_file(std::string(kDemoFolder) + "/config.json"));
  ASSERT_TRUE(config);
  (*config)["hidden_size"] = (*config)["intermediate_size"] = 2880;
  (*config)["num_attention_heads"] = 64;
  (*config)["num_key_value_heads"] = 8;
  (*config)["num_hidden_layers"] = 2;
  (*config)["layer_types"] = {"sliding_attention", "full_attention"};
  for (const int experts : {32, 128}) {
    (*config)["num_local_experts"] = experts;
    const std::string folder = strf("%s/rose_decode_%d", ::testing::TempDir().c_str(), getpid());
    std::filesystem::create_directories(folder);
    ASSERT_TRUE(write_file(folder + "/config.json", config->dump()));
    for (const Ops* ops : at_once())
      expect_decodes(*ops, {.model = folder, .load_format = "dummy"});
    std::filesystem::remove_all(folder);
  }
}

// What a backend is handed that says it can do all layers at once, and then that it cannot.
std::vector<DecodeSizes> handed;
bool look_and_refuse(Stream&, const Decode& op) {
  handed.push_back(sizes_of(op));
  Decode wrong = op;
  ++wrong.heads;
  EXPECT_DEATH(sizes_of(wrong), "decode: qkv_bias is .*, but .heads . 2 kv_heads. head_dim is");
  std::vector<DecodeLayer> layers(op.layers.begin(), op.layers.end());
  wrong = op;
  wrong.layers = layers;
  ++layers.back().down.rows;
  EXPECT_DEATH(sizes_of(wrong), "decode: down is 16 x .193, 192., wanted 16 x .192, 192.");
  return false;
}

TEST(DecodeHanded, single_tokens_alone_and_their_sizes) {
  Ops table = reference_ops();
  table.decode = look_and_refuse;
  ModelRig rig(table, "bf16", kDemoFolder);
  const Prompt prompt = {5, 700, 31, 4};
  const std::vector<Step> steps = {{{0, 0, 1}}, {{0, 1, 2}}, {{0, 3, 1}}};
  const Values watched = rig.run({prompt}, steps).logits[0];
  EXPECT_TRUE(handed.empty()) << "nobody could see the layers";
  rig.watches = false;
  EXPECT_TRUE(close(rig.run({prompt}, steps).logits[0], watched));
  ASSERT_EQ(handed.size(), 2u);
  for (const DecodeSizes& size : handed) {
    EXPECT_EQ(size.hidden, 192);
    EXPECT_EQ(size.experts, 16);
    EXPECT_EQ(size.top_k, 4);
    EXPECT_EQ(size.ffn, 192);
    EXPECT_EQ(size.kv_heads, 2);
  }
}

}  // namespace
}  // namespace rose
