// The forward pass against the tiny model's exact logits (tools/tiny_reference.py), with mistakes made on
// purpose, and cut into steps in every way.
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "testing/model_rig.h"

namespace rose {
namespace {

using namespace testing;

const std::string kTiny = ROSE_SOURCE_DIR "/tests/golden/tiny";
const std::string kDemo = ROSE_SOURCE_DIR "/models/demo";

struct Expected {
  Prompt prompt, greedy;
  Values exact;  // [10, 64]

  Expected() {
    const Result<Json> read = parse_json(*read_file(kTiny + "/expected.json"));
    ROSE_CHECK(read.has_value(), "%s", read.error().message.c_str());
    prompt = read->at("prompt").get<Prompt>();
    greedy = read->at("greedy").get<Prompt>();
    for (const Json& row : read->at("logits_exact"))
      for (const Json& logit : row) exact.at.push_back(logit.get<float>());
    exact.dims = {int64_t(prompt.size()), int64_t(exact.at.size() / prompt.size())};
  }
};

// The first logits after the last token that one mistake makes, everything else being right. A failure
// below names the mistake that comes closest.
struct Mistake {
  const char* name;
  float logits[4];
};

// clang-format off
constexpr Mistake kMistakes[] = {
    {"nothing",                                  {-1.832376f, -1.179507f, -0.946120f, -0.023980f}},
    {"the window sees one key more",             {-1.990333f, -2.028653f, -1.393340f,  0.604600f}},
    {"the window sees one key fewer",            {-2.612022f, -0.816052f, -1.116741f,  0.180220f}},
    {"sliding on odd layers",                    {-0.977151f, -1.575282f, -2.235288f,  0.490298f}},
    {"no sinks",                                 {-0.867926f, -1.245556f, -0.758350f, -0.476212f}},
    {"sinks multiplied by the scale",            {-2.038835f, -0.972968f, -1.126621f, -0.045414f}},
    {"high nibble first",                        { 0.471727f, -1.508113f, -1.995582f, -0.510564f}},
    {"gates in the first half, ups in the second", {0.565839f, -1.251064f, -1.716221f, 0.132695f}},
    {"gate and up exchanged",                    {-1.205000f, -1.085173f, -1.911056f,  0.435923f}},
    {"up without + 1",                           {-1.163903f, -1.190230f, -1.299188f, -0.488534f}},
    {"alpha of the gate 1",                      {-1.802644f, -1.295479f, -1.066512f,  0.034567f}},
    {"scale bytes off by one",                   {-0.903203f, -1.716853f, -1.562910f,  0.180698f}},
    {"YaRN's ramp truncated",                    {-1.831813f, -1.179218f, -0.946191f, -0.023812f}},
    {"no concentration",                         {-1.437372f, -0.833758f, -1.312859f, -0.254864f}},
    {"neighbours rotated as pairs",              {-1.461450f, -1.031143f, -1.163801f, -0.581506f}},
    {"softmax over all experts",                 {-1.812058f, -1.276316f, -1.104457f, -0.054668f}},
    {"query head h reads kv head h % kv_heads",  {-1.480740f, -0.420314f,  0.918698f,  1.026591f}},
    {"no expert biases",                         {-2.104910f, -1.156855f, -1.194427f, -0.043704f}},
};
// clang-format on

// The mistake whose logits these are, to `error`; else "none of these".
const char* mistake(const Values& logits, float error = 2e-5f) {
  const float* last = logits.at.data() + logits.at.size() - size_t(logits.dims[1]);
  for (const Mistake& one : kMistakes) {
    bool same = true;
    for (int i = 0; i < 4; ++i) same = same && std::fabs(last[i] - one.logits[i]) < error;
    if (same) return one.name;
  }
  return "none of these";
}

TEST(GptOss, tiny_in_f32) {
  const Expected expected;
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    ModelRig rig(*ops, "f32", kTiny);
    const Values logits = rig.run(expected.prompt).logits[0];
    // About 20 roundings of sums of 64 in f32 behind each other, on numbers of size 1 to 10.
    EXPECT_TRUE(close(logits, expected.exact, {.absolute = 2e-5}));
    EXPECT_STREQ(mistake(logits), "nothing");
  }
}

// With bf16 between the layers the published code is off by up to 0.030; as much again for another order
// of the same roundings.
TEST(GptOss, tiny_in_bf16) {
  const Expected expected;
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    ModelRig rig(*ops, "bf16", kTiny);
    EXPECT_TRUE(close(rig.run(expected.prompt).logits[0], expected.exact, {.absolute = 0.06}));
  }
}

TEST(GptOss, tiny_continues_greedily) {
  const Expected expected;
  for (const Ops* ops : available_ops()) {
    SCOPED_TRACE(ops->name);
    ModelRig rig(*ops, "f32", kTiny);
    Prompt all = expected.prompt;
    for (const int want : expected.greedy) {
      const Values logits = rig.run(all).logits[0];
      const int vocab = rig.config().vocab;
      const int token = largest(logits.at.data() + (all.size() - 1) * size_t(vocab), vocab);
      EXPECT_EQ(token, want);
      all.push_back(token);
    }
  }
}

// The tensors of all rows with this ending, to be spoiled.
void spoil(ModelRig& rig, const std::string& ending, float (*change)(float)) {
  int found = 0;
  for (const WeightRow& row : rig.model().weights()) {
    if (!row.name.ends_with(ending)) continue;
    const Tensor& tensor = *std::get<PlainWeight>(row.into).into;
    for (int64_t i = 0; i < tensor.elements(); ++i)
      tensor.as<float>()[i] = change(tensor.as<float>()[i]);
    ++found;
  }
  ROSE_CHECK(found > 0, "spoil: no weight ends in %s", ending.c_str());
}

// Each of these mistakes changes the logits as foretold: the golden numbers would show it.
TEST(GptOss, mistakes_made_on_purpose_are_seen) {
  const Expected expected;
  const auto after = [&](const auto& spoil_it) {
    ModelRig rig(reference_ops(), "f32", kTiny);
    spoil_it(rig);
    return mistake(rig.run(expected.prompt).logits[0]);
  };
  const auto with = [&](const auto& change) {
    return after([&](ModelRig& rig) {
      ModelConfig config = rig.config();
      change(config);
      rig.replace(config);
    });
  };
  EXPECT_STREQ(with([](ModelConfig&) {}), "nothing");
  EXPECT_STREQ(with([](ModelConfig& c) { ++c.window; }), "the window sees one key more");
  EXPECT_STREQ(with([](ModelConfig& c) { --c.window; }), "the window sees one key fewer");
  EXPECT_STREQ(with([](ModelConfig& c) { c.sliding_layer.flip(); }), "sliding on odd layers");
  EXPECT_STREQ(with([](ModelConfig& c) { c.rope_truncate = true; }), "YaRN's ramp truncated");
  EXPECT_STREQ(after([](ModelRig& rig) {
                 spoil(rig, "sinks", [](float) { return -std::numeric_limits<float>::infinity(); });
               }),
               "no sinks");
  EXPECT_STREQ(after([](ModelRig& rig) { spoil(rig, "sinks", [](float x) { return x / 4; }); }),
               "sinks multiplied by the scale");
  EXPECT_STREQ(after([](ModelRig& rig) {
                 spoil(rig, "mlp1_bias", [](float) { return 0.0f; });
                 spoil(rig, "mlp2_bias", [](float) { return 0.0f; });
               }),
               "no expert biases");
}

// However a prompt is cut into steps, and whatever runs beside it, its logits are the same numbers.
TEST(GptOss, any_cut_gives_the_same_logits) {
  Prompt a, b, c;
  for (int i = 0; i < 150; ++i) a.push_back((i * 37 + 11) % 2000);
  for (int i = 0; i < 70; ++i) b.push_back((i * 91 + 5) % 2000);
  for (int i = 0; i < 9; ++i) c.push_back(i * i % 2000);
  // Chunks and single tokens of three prompts side by side; the window leaves pages behind in `a`.
  const std::vector<Step> mixed = {
      {{0, 0, 63}},
      {{1, 0, 1}, {0, 63, 2}, {2, 0, 4}},
      {{0, 65, 70}, {2, 4, 1}, {1, 1, 64}},
      {{2, 5, 1}, {1, 65, 1}},
      {{0, 135, 14}, {1, 66, 4}, {2, 6, 3}},
      {{0, 149, 1}},
  };
  for (const Ops* ops : available_ops())
    for (const Recipe& recipe : kRecipes) {
      // The reference's loops are the same for every recipe, and slow.
      if (ops == &reference_ops() && recipe.name != std::string("bf16")) continue;
      SCOPED_TRACE(strf("%s %s", ops->name, recipe.name));
      if (!keeps(*ops, recipe)) continue;
      ModelRig rig(*ops, recipe.name, kDemo);
      // The host's kernels compute a token in one way. Those of a GPU depend on how many there are: with
      // rounded activations that shows.
      const bool same = ops->device == &host_device() || recipe.activations == DType::f32;
      const auto expect_equal = [&](const Values& got, const Values& want) {
        if (same) {
          EXPECT_TRUE(close(got, want));
        } else {
          EXPECT_LE(relative_error(got, want), 0.1);
        }
      };
      const Outcome cut = rig.run({a, b, c}, mixed);
      expect_equal(cut.logits[0], rig.run(a).logits[0]);
      expect_equal(cut.logits[1], rig.run(b).logits[0]);
      expect_equal(cut.logits[2], rig.run(c).logits[0]);
      expect_equal(rig.run({b}, chunked(70, 32)).logits[0], cut.logits[1]);
      expect_equal(rig.run({c}, chunked(9, 1)).logits[0], cut.logits[2]);
    }
}

TEST(GptOss, an_unknown_family_is_named) {
  ModelConfig config;
  config.architecture = "GptOstForCausalLM";
  const auto made = make_model(config);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().message,
            "no model family 'GptOstForCausalLM'; this build has: GptOssForCausalLM");
}

TEST(Recipe, an_unknown_one_is_named) {
  const auto found = find_recipe("int4");
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().message, "no recipe 'int4'; there are: f32, bf16, q8, mxfp4, fp8");
  EXPECT_EQ((*find_recipe("q8"))->attention, Format::q8);
}

TEST(Ops, an_unknown_device_is_named) {
  const auto found = find_ops("gpu");
  ASSERT_FALSE(found.has_value());
  EXPECT_TRUE(found.error().message.starts_with("no device 'gpu'; this computer has: auto, ref"))
      << found.error().message;
  for (const char* none : {"cuda:99", "cuda:", "cuda:x", "cuda:-1", "cuda:99999999999"})
    EXPECT_FALSE(find_ops(none).has_value()) << none;
  EXPECT_EQ(*find_ops("ref"), &reference_ops());
  EXPECT_EQ(*find_ops("auto"), available_ops().back());
}

}  // namespace
}  // namespace rose
