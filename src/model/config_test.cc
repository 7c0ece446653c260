#include "model/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"

namespace rose {
namespace {

Json parsed(const std::string& text) {
  auto json = parse_json(text);
  EXPECT_TRUE(json) << json.error().message;
  return *json;
}

// gpt-oss-20b as published, in both layouts.
const char* const kPublished = R"({
  "architectures": ["GptOssForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
  "eos_token_id": 200002, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu",
  "hidden_size": 2880, "initial_context_length": 4096, "initializer_range": 0.02,
  "intermediate_size": 2880, "max_position_embeddings": 131072, "model_type": "gpt_oss",
  "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24,
  "num_key_value_heads": 8, "num_local_experts": 32, "output_router_logits": false,
  "pad_token_id": 199999,
  "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"],
                          "quant_method": "mxfp4"},
  "rms_norm_eps": 1e-05,
  "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
                   "original_max_position_embeddings": 4096, "rope_type": "yarn",
                   "truncate": false},
  "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
  "tie_word_embeddings": false, "use_cache": true, "vocab_size": 201088})";

const char* const kOriginal = R"({
  "num_hidden_layers":24,"num_experts":32,"experts_per_token":4,"vocab_size":201088,
  "hidden_size":2880,"intermediate_size":2880,"swiglu_limit":7.0,"head_dim":64,
  "num_attention_heads":64,"num_key_value_heads":8,"sliding_window":128,
  "initial_context_length":4096,"rope_theta":150000,"rope_scaling_factor":32.0,
  "rope_ntk_alpha":1,"rope_ntk_beta":32})";

void expect_20b(const Json& json) {
  const auto read = parse_config(json);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->architecture, "GptOssForCausalLM");
  EXPECT_EQ(read->layers, 24);
  EXPECT_EQ(read->hidden, 2880);
  EXPECT_EQ(read->heads, 64);
  EXPECT_EQ(read->kv_heads, 8);
  EXPECT_EQ(read->head_dim, 64);
  EXPECT_EQ(read->vocab, 201088);
  EXPECT_EQ(read->experts, 32);
  EXPECT_EQ(read->top_k, 4);
  EXPECT_EQ(read->ffn, 2880);
  EXPECT_EQ(read->rms_eps, 1e-5f);
  EXPECT_EQ(read->swiglu_limit, 7.f);
  EXPECT_EQ(read->window, 128);
  ASSERT_EQ(read->sliding_layer.size(), 24u);
  for (size_t layer = 0; layer < 24; ++layer)
    EXPECT_EQ(read->sliding_layer[layer], layer % 2 == 0) << layer;
  EXPECT_EQ(read->rope_theta, 150000);
  EXPECT_EQ(read->rope_factor, 32);
  EXPECT_EQ(read->rope_beta_fast, 32);
  EXPECT_EQ(read->rope_beta_slow, 1);
  EXPECT_EQ(read->rope_original_context, 4096);
  EXPECT_FALSE(read->rope_truncate);
  EXPECT_EQ(read->max_context, 131072);
}

TEST(Config, every_spelling_gives_the_same_sizes) {
  expect_20b(parsed(kPublished));
  expect_20b(parsed(kOriginal));

  Json newer = parsed(kPublished);
  newer["rope_parameters"] = newer["rope_scaling"];
  newer["rope_parameters"]["rope_theta"] = 150000.0;
  for (const char* gone :
       {"rope_scaling", "rope_theta", "initial_context_length", "experts_per_token"})
    newer.erase(gone);
  newer["dtype"] = "bfloat16";
  expect_20b(newer);

  Json floats = parsed(kOriginal);
  for (auto& [name, value] : floats.items()) value = value.get<double>();
  expect_20b(floats);
}

TEST(Config, values_that_differ_from_the_defaults_arrive) {
  Json json = parsed(kPublished);
  json["rms_norm_eps"] = 1e-6;
  json["swiglu_limit"] = 5;
  json["rope_scaling"]["beta_fast"] = 16;
  json["rope_scaling"]["beta_slow"] = 2;
  json["rope_scaling"]["factor"] = 8;
  json["rope_scaling"]["original_max_position_embeddings"] = 8192;
  json["rope_scaling"]["truncate"] = true;
  json["rope_theta"] = 10000;
  json["layer_types"] = Json::array();
  for (int layer = 0; layer < 24; ++layer)
    json["layer_types"].push_back(layer % 3 ? "full_attention" : "sliding_attention");
  const auto read = parse_config(json);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->rms_eps, 1e-6f);
  EXPECT_EQ(read->swiglu_limit, 5.f);
  EXPECT_EQ(read->rope_beta_fast, 16);
  EXPECT_EQ(read->rope_beta_slow, 2);
  EXPECT_EQ(read->rope_factor, 8);
  EXPECT_EQ(read->rope_original_context, 8192);
  EXPECT_TRUE(read->rope_truncate);
  EXPECT_EQ(read->rope_theta, 10000);
  EXPECT_FALSE(read->sliding_layer[2]);
  EXPECT_TRUE(read->sliding_layer[3]);

  Json original = parsed(kOriginal);
  original["rope_ntk_alpha"] = 2;
  original["rope_ntk_beta"] = 16.0;
  original["rope_scaling_factor"] = 4;
  const auto flat = parse_config(original);
  ASSERT_TRUE(flat) << flat.error().message;
  EXPECT_EQ(flat->rope_beta_slow, 2);
  EXPECT_EQ(flat->rope_beta_fast, 16);
  EXPECT_EQ(flat->max_context, 4 * 4096);
}

TEST(Config, without_scaling_the_rotation_is_plain) {
  Json json = parsed(kPublished);
  json["rope_scaling"] = nullptr;
  EXPECT_EQ(parse_config(json)->rope_factor, 1);
  json["rope_parameters"] = {{"rope_theta", 5000}, {"rope_type", "default"}};
  EXPECT_EQ(parse_config(json)->rope_factor, 1);
  EXPECT_EQ(parse_config(json)->rope_theta, 5000);
}

struct Wrong {
  const char* patch;  // merged into the published config; null removes
  const char* error;
};

TEST(Config, what_is_wrong_is_named) {
  const Wrong cases[] = {
      {R"({"architectures":["LlamaForCausalLM"]})", "no model family 'LlamaForCausalLM'"},
      {R"({"architectures":[]})", "architectures is []"},
      {R"({"architectures":"GptOss"})", "architectures is \"GptOss\""},
      {R"({"architectures":null,"model_type":null})", "architectures is missing"},
      {R"({"hidden_size":null})", "hidden_size is missing"},
      {R"({"hidden_size":"2880"})", "hidden_size is \"2880\", wanted a number"},
      {R"({"hidden_size":0})", "hidden_size is 0, wanted a whole number from 1"},
      {R"({"hidden_size":-32})", "hidden_size is -32"},
      {R"({"hidden_size":2880.5})", "hidden_size is 2880.5"},
      {R"({"hidden_size":1e300})", "hidden_size is 1e+300"},
      {R"({"hidden_size":2890})", "hidden_size is 2890, wanted a multiple of 32"},
      {R"({"intermediate_size":48})", "intermediate_size is 48, wanted a multiple of 32"},
      {R"({"num_hidden_layers":1000000})", "num_hidden_layers is 1000000"},
      {R"({"num_hidden_layers":[24]})", "num_hidden_layers is [24], wanted a number"},
      {R"({"num_key_value_heads":7})", "64, no multiple of num_key_value_heads 7"},
      {R"({"head_dim":63})", "head_dim is 63"},
      {R"({"num_attention_heads":8,"head_dim":2})", "8 x 2, wanted a multiple of 32"},
      {R"({"num_experts_per_tok":33})", "num_experts_per_tok is 33 of num_local_experts 32"},
      {R"({"num_local_experts":16777216,"hidden_size":16777216})", "more than memory can hold"},
      {R"({"sliding_window":0})", "sliding_window is 0"},
      {R"({"layer_types":["full_attention"]})", "layer_types has 1 entries"},
      {R"({"layer_types":3})", "layer_types has 0 entries"},
      {R"({"num_hidden_layers":1,"layer_types":["chunked_attention"]})", "\"chunked_attention\""},
      {R"({"rope_scaling":3})", "rope_scaling is 3"},
      {R"({"rope_scaling":{"rope_type":"longrope"}})", "rope_type is \"longrope\""},
      {R"({"rope_scaling":{"factor":null}})", "factor is missing"},
      {R"({"rope_scaling":{"factor":0}})", "rope factor is 0"},
      {R"({"rope_scaling":{"beta_fast":-1}})", "rope beta_fast is -1"},
      {R"({"rope_scaling":{"truncate":1}})", "truncate is 1, wanted true or false"},
      {R"({"rope_scaling":{"attention_factor":1.5}})", "concentration (1.5)"},
      {R"({"rope_theta":1})", "rope_theta is 1, wanted more than 1"},
      {R"({"rms_norm_eps":-1})", "rms_norm_eps is -1"},
      {R"({"swiglu_limit":0})", "swiglu_limit is 0"},
      {R"({"eos_token_id":"x"})", "eos_token_id is \"x\""},
      {R"({"eos_token_id":[2,201088]})", "eos_token_id is [2,201088], wanted token ids below"},
      {R"({"eos_token_id":-1})", "eos_token_id is -1"},
      {R"({"tie_word_embeddings":true})", "tie_word_embeddings is true"},
      {R"({"quantization_config":{"quant_method":"gptq"}})", "quant_method is \"gptq\""},
      {R"({"quantization_config":{"quant_method":null}})", "quant_method is missing"},
  };
  for (const Wrong& wrong : cases) {
    Json json = parsed(kPublished);
    json.merge_patch(parsed(wrong.patch));
    const auto read = parse_config(json);
    ASSERT_FALSE(read) << wrong.patch;
    EXPECT_NE(read.error().message.find(wrong.error), std::string::npos)
        << wrong.patch << " gives: " << read.error().message;
  }
  EXPECT_EQ(parse_config(parsed("[]")).error().message, "not a JSON object");
}

TEST(Config, eos_tokens_are_those_of_both_files) {
  const std::string folder = strf("%s/rose_config_%d", ::testing::TempDir().c_str(), getpid());
  std::filesystem::create_directory(folder);
  const std::string config = folder + "/config.json",
                    generation = folder + "/generation_config.json";

  EXPECT_EQ(read_config(folder).error().kind, ErrorKind::not_found);
  EXPECT_NE(read_config(folder).error().message.find(config), std::string::npos);

  ASSERT_TRUE(write_file(config, kPublished));
  EXPECT_EQ(read_config(folder)->eos_tokens, (std::vector<int>{200002}));
  ASSERT_TRUE(write_file(generation, R"({"eos_token_id": [200002, 199999, 200012]})"));
  EXPECT_EQ(read_config(folder)->eos_tokens, (std::vector<int>{200002, 199999, 200012}));
  EXPECT_EQ(read_config(config)->eos_tokens, (std::vector<int>{200002, 199999, 200012}));
  ASSERT_TRUE(write_file(generation, R"({"eos_token_id": 7})"));
  EXPECT_EQ(read_config(folder)->eos_tokens, (std::vector<int>{200002, 7}));

  ASSERT_TRUE(write_file(generation, R"({"eos_token_id": 3.5})"));
  EXPECT_EQ(read_config(folder).error().message,
            generation + ": eos_token_id is 3.5, wanted token ids below 201088");
  ASSERT_TRUE(write_file(config, "{"));
  EXPECT_NE(read_config(folder).error().message.find(config + ": not valid JSON"),
            std::string::npos);
  ASSERT_TRUE(write_file(config, "[]"));
  EXPECT_EQ(read_config(folder).error().message, config + ": not a JSON object");
  std::filesystem::remove_all(folder);
}

TEST(Config, the_models_of_this_repository_are_read) {
  const auto demo = read_config(ROSE_SOURCE_DIR "/models/demo");
  ASSERT_TRUE(demo) << demo.error().message;
  EXPECT_EQ(demo->hidden, 192);
  EXPECT_EQ(demo->experts, 16);
  const auto tiny = read_config(ROSE_SOURCE_DIR "/tests/golden/tiny");
  ASSERT_TRUE(tiny) << tiny.error().message;
  EXPECT_EQ(tiny->window, 4);
}

}  // namespace
}  // namespace rose
