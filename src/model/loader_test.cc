#include "model/loader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "kernels/pack/pack.h"
#include "model/checkpoint.h"
#include "tensor/bf16.h"
#include "tensor/mxfp4.h"
#include "tensor/safetensors.h"

namespace rose {
namespace {

namespace fs = std::filesystem;

const std::string kTinyModel = ROSE_SOURCE_DIR "/tests/golden/tiny";

struct Stored {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using Tensors = std::map<std::string, Stored>;

Tensors read_tensors(const std::string& path) {
  const auto file = Safetensors::open(path);
  EXPECT_TRUE(file) << file.error().message;
  Tensors tensors;
  for (const auto& [name, entry] : file->entries()) {
    const auto bytes = file->bytes(entry);
    tensors[name] = {std::string(entry.dtype), entry.shape,
                     std::string(bytes.begin(), bytes.end())};
  }
  return tensors;
}

void write_tensors(const fs::path& path, const Tensors& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = dump_json(header);
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = char(uint64_t(text.size()) >> (8 * i));
  ASSERT_TRUE(write_file(path, file + text + data));
}

// Takes some tensors out of a set.
Tensors split(Tensors& from, const std::string& part_of_name) {
  Tensors taken;
  for (auto at = from.begin(); at != from.end();) {
    const auto next = std::next(at);
    if (at->first.find(part_of_name) != std::string::npos) taken.insert(from.extract(at));
    at = next;
  }
  return taken;
}

void write_index(const fs::path& folder, const std::map<std::string, Tensors>& files) {
  Json map = Json::object();
  for (const auto& [file, tensors] : files) {
    write_tensors(folder / file, tensors);
    for (const auto& [name, tensor] : tensors) map[name] = file;
  }
  ASSERT_TRUE(write_file(folder / "model.safetensors.index.json",
                         dump_json(Json{{"metadata", {{"total_size", 0}}}, {"weight_map", map}})));
}

// The same tensors under the names of the `original/` layout, qkv in one.
Tensors in_original_layout(const Tensors& hugging_face) {
  Tensors out;
  const std::pair<const char*, const char*> names[] = {
      {"input_layernorm.weight", "attn.norm.scale"},
      {"self_attn.sinks", "attn.sinks"},
      {"self_attn.o_proj.weight", "attn.out.weight"},
      {"self_attn.o_proj.bias", "attn.out.bias"},
      {"post_attention_layernorm.weight", "mlp.norm.scale"},
      {"mlp.router.weight", "mlp.gate.weight"},
      {"mlp.router.bias", "mlp.gate.bias"},
      {"mlp.experts.gate_up_proj_blocks", "mlp.mlp1_weight.blocks"},
      {"mlp.experts.gate_up_proj_scales", "mlp.mlp1_weight.scales"},
      {"mlp.experts.gate_up_proj_bias", "mlp.mlp1_bias"},
      {"mlp.experts.down_proj_blocks", "mlp.mlp2_weight.blocks"},
      {"mlp.experts.down_proj_scales", "mlp.mlp2_weight.scales"},
      {"mlp.experts.down_proj_bias", "mlp.mlp2_bias"}};
  for (int layer = 0; layer < 2; ++layer) {
    const std::string from = strf("model.layers.%d.", layer), to = strf("block.%d.", layer);
    for (const auto& [theirs, ours] : names) out[to + ours] = hugging_face.at(from + theirs);
    for (const char* kind : {"weight", "bias"}) {
      Stored qkv = hugging_face.at(from + "self_attn.q_proj." + kind);
      for (const char* part : {"k", "v"}) {
        const Stored& more = hugging_face.at(from + "self_attn." + part + "_proj." + kind);
        qkv.shape[0] += more.shape[0];
        qkv.bytes += more.bytes;
      }
      out[to + "attn.qkv." + kind] = qkv;
    }
  }
  out["embedding.weight"] = hugging_face.at("model.embed_tokens.weight");
  out["norm.scale"] = hugging_face.at("model.norm.weight");
  out["unembedding.weight"] = hugging_face.at("lm_head.weight");
  return out;
}

// The same tensors with the experts widened to bf16, [experts, in, out].
Tensors dequantised(Tensors tensors) {
  for (int layer = 0; layer < 2; ++layer)
    for (const char* name : {"gate_up_proj", "down_proj"}) {
      const std::string stem = strf("model.layers.%d.mlp.experts.%s", layer, name);
      const Stored blocks = tensors.at(stem + "_blocks"), scales = tensors.at(stem + "_scales");
      tensors.erase(stem + "_blocks");
      tensors.erase(stem + "_scales");
      const int64_t experts = blocks.shape[0], rows = blocks.shape[1],
                    columns = blocks.shape[2] * 32;
      Stored wide{
          "BF16", {experts, columns, rows}, std::string(size_t(experts * rows * columns * 2), 0)};
      for (int64_t e = 0; e < experts; ++e)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c) {
            const int64_t block = (e * rows + r) * (columns / 32) + c / 32;
            const bf16 value = to_bf16(
                mxfp4_value(reinterpret_cast<const uint8_t*>(blocks.bytes.data()) + block * 16,
                            uint8_t(scales.bytes[size_t(block)]), int(c % 32)));
            std::memcpy(&wide.bytes[size_t((e * columns + c) * rows + r) * 2], &value, 2);
          }
      tensors[stem] = wide;
    }
  return tensors;
}

// Everything that was loaded, by row: format or dtype, shape and packed bytes.
std::map<std::string, std::string> contents(const LoadedModel& loaded) {
  std::map<std::string, std::string> rows;
  for (const WeightRow& row : loaded.model->weights()) {
    if (const auto* plain = std::get_if<PlainWeight>(&row.into)) {
      const Tensor& tensor = *plain->into;
      rows[row.name] =
          show(tensor) + std::string(static_cast<const char*>(tensor.data), size_t(tensor.bytes()));
    } else {
      const Weight& weight = *std::get<PackedWeight>(row.into).into;
      const int64_t bytes =
          loaded.ops->weight_bytes(weight.format, weight.experts, weight.rows, weight.columns);
      rows[row.name] = strf("%s [%d, %d, %d]", name_of(weight.format), weight.experts, weight.rows,
                            weight.columns) +
                       std::string(static_cast<const char*>(weight.data), size_t(bytes));
    }
  }
  return rows;
}

class Loader : public ::testing::Test {
 protected:
  Loader() : folder_(fs::path(::testing::TempDir()) / strf("rose_loader_%d", getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::copy_file(kTinyModel + "/config.json", folder_ / "config.json");
    tiny_ = read_tensors(kTinyModel + "/model.safetensors");
  }
  ~Loader() override { fs::remove_all(folder_); }

  Result<LoadedModel> load(const std::string& model, const std::string& format = "auto",
                           uint64_t seed = 0) {
    return load_model({.model = model, .load_format = format, .seed = seed}, *recipe_, stream_,
                      *ops_, [this](const LoadProgress& progress) { told_.push_back(progress); });
  }
  Result<LoadedModel> load() { return load(folder_); }
  std::string error() {
    const auto loaded = load();
    return loaded ? "" : loaded.error().message;
  }
  std::string in_folder(const std::string& what) {
    return "loading " + folder_.string() + ": " + what;
  }

  fs::path folder_;
  Tensors tiny_;
  const Ops* ops_ = &reference_ops();
  const Recipe* recipe_ = *find_recipe("bf16");
  ThreadPool threads_{2};
  Stream stream_{.device = ops_->device, .threads = &threads_, .scratch = nullptr};
  std::vector<LoadProgress> told_;
};

TEST_F(Loader, weights_arrive_with_their_values) {
  const auto loaded = load(kTinyModel);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->folder, kTinyModel);
  EXPECT_EQ(loaded->recipe, recipe_);
  int seen = 0;
  for (const WeightRow& row : loaded->model->weights()) {
    if (row.name == "block.0.attn.sinks") {
      const Tensor& sinks = *std::get<PlainWeight>(row.into).into;
      EXPECT_EQ(show(sinks), "f32 [4]");
      const float* values = sinks.as<float>();
      EXPECT_EQ(std::vector<float>(values, values + 4),
                (std::vector<float>{-1.09375f, 1.28125f, -2.f, -.5f}));
      ++seen;
    }
    if (row.name == "embedding.weight") {
      const Tensor& table = *std::get<PlainWeight>(row.into).into;
      EXPECT_EQ(show(table), "bf16 [64, 64]");
      EXPECT_EQ(to_f32(table.as<bf16>()[0]), -.06640625f);
      EXPECT_EQ(to_f32(table.as<bf16>()[5]), .21484375f);
      ++seen;
    }
    if (row.name == "block.0.mlp.mlp1_weight") {
      const Weight& weight = *std::get<PackedWeight>(row.into).into;
      EXPECT_EQ(weight.format, Format::mxfp4);
      // The reference keeps MXFP4 as published: codes, then scales.
      const Stored &codes = tiny_.at("model.layers.0.mlp.experts.gate_up_proj_blocks"),
                   &scales = tiny_.at("model.layers.0.mlp.experts.gate_up_proj_scales");
      const std::string wanted = codes.bytes + scales.bytes;
      EXPECT_EQ(uint8_t(wanted[0]), 244);
      EXPECT_EQ(std::memcmp(weight.data, wanted.data(), wanted.size()), 0);
      ++seen;
    }
  }
  EXPECT_EQ(seen, 3);
}

TEST_F(Loader, every_layout_gives_the_same_bytes) {
  Recipe wide = *recipe_;  // in which experts of every file end up in one format
  wide.expert = wide.expert_bf16 = Format::bf16;
  recipe_ = &wide;
  const auto expected = contents(*load(kTinyModel));

  const auto check = [&](const char* layout) {
    SCOPED_TRACE(layout);
    const auto loaded = load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    const auto found = contents(*loaded);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, bytes] : expected) EXPECT_TRUE(found.at(name) == bytes) << name;
  };
  const auto clear = [&] {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::copy_file(kTinyModel + "/config.json", folder_ / "config.json");
  };

  write_tensors(folder_ / "model.safetensors", tiny_);
  check("one file without an index");

  clear();
  Tensors rest = tiny_;
  const Tensors second = split(rest, "self_attn"), third = split(rest, "_scales");
  write_index(folder_, {{"model-00000-of-00002.safetensors", rest},
                        {"model-00001-of-00002.safetensors", second},
                        {"odd name.safetensors", third}});
  write_tensors(folder_ / "not_of_the_index.safetensors", {{"x", {"U8", {1}, "x"}}});
  check("shards with irregular names; a layer lies in all of them");

  clear();
  write_tensors(folder_ / "model.safetensors", dequantised(tiny_));
  check("experts widened to bf16");

  clear();
  fs::create_directory(folder_ / "original");
  write_tensors(folder_ / "original/model.safetensors", in_original_layout(tiny_));
  check("weights in original/ only, config.json above");

  clear();
  fs::create_directory(folder_ / "original");
  fs::remove(folder_ / "config.json");
  rest = in_original_layout(tiny_);
  const Tensors block = split(rest, "block.1");
  write_tensors(folder_ / "original/model--00001-of-00002.safetensors", block);
  write_tensors(folder_ / "original/model--00002-of-00002.safetensors", rest);
  ASSERT_TRUE(
      write_file(folder_ / "original/config.json",
                 R"({"num_hidden_layers":2,"num_experts":4,"experts_per_token":2,"vocab_size":64,
          "hidden_size":64,"intermediate_size":64,"swiglu_limit":7.0,"head_dim":16,
          "num_attention_heads":4,"num_key_value_heads":2,"sliding_window":4,
          "initial_context_length":4096,"rope_theta":150000,"rope_scaling_factor":32.0,
          "rope_ntk_alpha":1,"rope_ntk_beta":32})"));
  check("original/ alone, in two files");
  EXPECT_EQ(load()->folder, folder_ / "original");
}

TEST_F(Loader, the_demo_model_loads_on_every_backend_in_every_recipe) {
  for (const Ops* ops : available_ops())
    for (const Recipe& recipe : kRecipes) {
      SCOPED_TRACE(std::string(ops->name) + " " + recipe.name);
      if (!keeps(*ops, recipe)) continue;
      ops_ = ops;
      recipe_ = &recipe;
      stream_.device = ops->device;
      const auto loaded = load(ROSE_SOURCE_DIR "/models/demo");
      ASSERT_TRUE(loaded) << loaded.error().message;
      int64_t bytes = 0;
      for (const Buffer& buffer : loaded->memory) bytes += buffer.bytes();
      EXPECT_EQ(loaded->weight_bytes, bytes);
      for (const WeightRow& row : loaded->model->weights()) {
        if (const auto* plain = std::get_if<PlainWeight>(&row.into))
          EXPECT_TRUE(*plain->into) << row.name;
        else
          EXPECT_TRUE(*std::get<PackedWeight>(row.into).into) << row.name;
      }
    }
}

TEST_F(Loader, the_census_says_of_each_tensor_what_its_format_lost) {
  Tensors tensors = tiny_;
  const char* name = "model.layers.1.mlp.experts.down_proj_scales";
  tensors[name].bytes[3] = char(127 + 60);  // far above the 127 other blocks of expert 0's matrix
  for (int i = 0; i < 16; ++i)
    tensors["model.layers.1.mlp.experts.down_proj_blocks"].bytes[3 * 16 + i] = 0x77;
  write_tensors(folder_ / "model.safetensors", tensors);
  for (const auto& [recipe, inexact] : {std::pair{"bf16", 0}, {"fp8", 127}}) {
    recipe_ = *find_recipe(recipe);
    ops_ = &reference_ops();
    const auto loaded = load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    ASSERT_EQ(loaded->census.size(), 4u);  // two matrices of two layers
    for (const Census& tensor : loaded->census) {
      const bool down = tensor.name.ends_with("mlp2_weight");
      EXPECT_EQ(tensor.blocks, 4 * 64 * (down ? 1 : 2) * 64 / 32) << tensor.name;
      EXPECT_EQ(tensor.inexact, tensor.name == "block.1.mlp.mlp2_weight" ? inexact : 0)
          << tensor.name << " " << recipe;
    }
  }
}

TEST_F(Loader, progress_ends_at_the_total) {
  ASSERT_TRUE(load(ROSE_SOURCE_DIR "/models/demo"));
  ASSERT_GE(told_.size(), 2u);
  EXPECT_STREQ(told_.front().phase, "headers");
  EXPECT_STREQ(told_.back().phase, "weights");
  EXPECT_EQ(told_.back().bytes, 12691968);  // metadata.total_size of the index
  EXPECT_EQ(told_.back().total, 12691968);
  for (size_t i = 1; i < told_.size(); ++i) EXPECT_GE(told_[i].bytes, told_[i - 1].bytes);
}

TEST_F(Loader, a_missing_tensor_is_named_as_the_file_would_name_it) {
  for (const char* name :
       {"model.layers.1.self_attn.k_proj.weight", "lm_head.weight",
        "model.layers.0.mlp.experts.down_proj_scales",
        "model.layers.0.mlp.experts.down_proj_blocks", "model.embed_tokens.weight"}) {
    Tensors tensors = tiny_;
    tensors.erase(name);
    write_tensors(folder_ / "model.safetensors", tensors);
    EXPECT_EQ(error(), in_folder(std::string(name) + " is missing from the checkpoint"));
  }
  Tensors tensors = in_original_layout(tiny_);
  tensors.erase("block.0.attn.qkv.bias");
  write_tensors(folder_ / "model.safetensors", tensors);
  EXPECT_EQ(error(), in_folder("block.0.attn.qkv.bias is missing from the checkpoint"));
}

TEST_F(Loader, a_surplus_tensor_is_named) {
  Tensors tensors = tiny_;
  tensors["model.layers.0.self_attn.q_norm.weight"] = tiny_.at("model.norm.weight");
  write_tensors(folder_ / "model.safetensors", tensors);
  EXPECT_EQ(error(),
            in_folder("model.layers.0.self_attn.q_norm.weight has no place in the model that "
                      "config.json describes"));
  tensors["model.layers.2.self_attn.sinks"] = tiny_.at("model.layers.1.self_attn.sinks");
  write_tensors(folder_ / "model.safetensors", tensors);
  EXPECT_NE(error().find("nor have 1 others"), std::string::npos) << error();
  // Experts in both forms: which one is meant?
  tensors = tiny_;
  tensors["model.layers.0.mlp.experts.down_proj"] =
      dequantised(tiny_).at("model.layers.0.mlp.experts.down_proj");
  write_tensors(folder_ / "model.safetensors", tensors);
  EXPECT_NE(error().find("model.layers.0.mlp.experts.down_proj has no place"), std::string::npos);
}

TEST_F(Loader, a_shape_that_config_json_contradicts_is_named) {
  struct Case {
    const char* name;
    std::vector<int64_t> shape;
    const char* error;
  };
  const Case cases[] = {
      {"model.layers.1.self_attn.sinks", {2, 2}, "shape is [2, 2], config.json makes it [4]"},
      {"model.layers.0.self_attn.k_proj.weight",
       {64, 32},
       "shape is [64, 32], config.json makes it [32, 64]"},
      {"model.layers.0.mlp.experts.gate_up_proj_blocks",
       {4, 64, 4, 16},
       "shape is [4, 64, 4, 16], config.json makes it [4, 128, 2, 16]"},
      {"model.layers.0.mlp.experts.down_proj_scales",
       {2, 128, 2},
       "shape is [2, 128, 2], config.json makes it [4, 64, 2]"},
      {"model.norm.weight", {64, 1}, "shape is [64, 1], config.json makes it [64]"},
  };
  for (const Case& wrong : cases) {
    Tensors tensors = tiny_;
    tensors.at(wrong.name).shape = wrong.shape;
    write_tensors(folder_ / "model.safetensors", tensors);
    EXPECT_EQ(error(), in_folder(std::string(wrong.name) + ": " + wrong.error));
  }
  Tensors tensors = in_original_layout(tiny_);
  tensors.at("block.0.attn.sinks").shape = {2, 2};
  write_tensors(folder_ / "model.safetensors", tensors);
  EXPECT_EQ(error(), in_folder("block.0.attn.sinks: shape is [2, 2], config.json makes it [4]"));
}

TEST_F(Loader, a_wrong_dtype_is_named) {
  for (const auto& [name, dtype, wanted] :
       {std::tuple{"model.norm.weight", "F16", "BF16"},
        std::tuple{"model.layers.0.mlp.experts.down_proj_blocks", "I8", "U8"}}) {
    Tensors tensors = tiny_;
    tensors.at(name).dtype = dtype;
    write_tensors(folder_ / "model.safetensors", tensors);
    EXPECT_EQ(error(), in_folder(strf("%s: dtype is %s, wanted %s", name, dtype, wanted)));
  }
}

TEST_F(Loader, index_and_files_must_agree) {
  const auto path = folder_ / "model.safetensors.index.json";
  const auto index = [&](const std::string& text) {
    EXPECT_TRUE(write_file(path, text));
    return error();
  };
  const std::string at = in_folder(path.string() + ": ");
  write_tensors(folder_ / "a.safetensors", {{"x", {"U8", {1}, "x"}}, {"y", {"U8", {1}, "y"}}});
  write_tensors(folder_ / "b.safetensors", {{"z", {"U8", {1}, "z"}}});
  EXPECT_EQ(index(R"({"weight_map":{"x":"a.safetensors"}})"),
            at + "it does not name y, which a file holds");
  EXPECT_EQ(
      index(R"({"weight_map":{"x":"a.safetensors","y":"a.safetensors","w":"a.safetensors"}})"),
      at + "w is not in a.safetensors, where the index puts it");
  EXPECT_EQ(
      index(R"({"weight_map":{"x":"a.safetensors","y":"b.safetensors","z":"b.safetensors"}})"),
      at + "y is not in b.safetensors, where the index puts it");
  EXPECT_EQ(index(R"({"weight_map":{"x":"c.safetensors"}})"),
            in_folder("the index names c.safetensors, which is not in " + folder_.string() +
                      ": the download is not complete"));
  EXPECT_EQ(index(R"({"weight_map":{"x":"../a.safetensors"}})"),
            at + "x: '../a.safetensors' is not the name of a file beside the index");
  EXPECT_EQ(index(R"({"weight_map":{"x":3}})"), at + "x: the file is not a string");
  EXPECT_EQ(index(R"({"weight_map":[]})"), at + "it has no object weight_map");
  EXPECT_EQ(index("[]"), at + "it has no object weight_map");
  EXPECT_NE(index("{").find(at + "not valid JSON"), std::string::npos);
}

TEST_F(Loader, a_tensor_in_two_files_is_named) {
  write_tensors(folder_ / "a.safetensors", {{"x", {"U8", {1}, "x"}}});
  write_tensors(folder_ / "b.safetensors", {{"x", {"U8", {1}, "x"}}});
  EXPECT_EQ(error(), in_folder("x is in two files, the second is b.safetensors"));
}

TEST_F(Loader, a_damaged_file_and_an_empty_folder_are_named) {
  EXPECT_EQ(error(), in_folder("no *.safetensors in the folder, nor in its original/"));
  write_tensors(folder_ / "model.safetensors", tiny_);
  fs::resize_file(folder_ / "model.safetensors", 100000);
  EXPECT_NE(error().find(in_folder("reading " + (folder_ / "model.safetensors").string())),
            std::string::npos);
  EXPECT_NE(error().find("it is truncated"), std::string::npos) << error();
  ASSERT_TRUE(write_file(folder_ / "config.json", "{}"));
  EXPECT_NE(error().find("architectures is missing"), std::string::npos);
  EXPECT_EQ(load(folder_, "gguf").error().message, "no load format 'gguf'; there are: auto, dummy");
  EXPECT_EQ(load(folder_ / "absent").error().kind, ErrorKind::not_found);
}

TEST_F(Loader, what_does_not_fit_into_memory_is_refused_first) {
  Device small = *ops_->device;
  small.free_bytes = [] { return int64_t(12'000'000); };
  Ops ops = *ops_;
  ops.device = &small;
  ops_ = &ops;
  const auto loaded = load(ROSE_SOURCE_DIR "/models/demo");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().message,
            "loading " ROSE_SOURCE_DIR
            "/models/demo: the weights take 12.8 MB in recipe bf16, cpu has "
            "12.0 MB free");
}

TEST_F(Loader, dummy_weights_need_only_the_config_and_have_realistic_statistics) {
  const auto loaded = load(ROSE_SOURCE_DIR "/models/demo/config.json", "dummy");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->folder, ROSE_SOURCE_DIR "/models/demo");
  EXPECT_EQ(told_.back().bytes, 12691968);
  for (const WeightRow& row : loaded->model->weights()) {
    const auto near = [&](double mean, double deviation, const auto& value, int64_t count) {
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < count; ++i) {
        sum += value(i);
        squares += value(i) * value(i);
      }
      const double found = sum / double(count);
      const double spread = std::sqrt(squares / double(count) - found * found);
      EXPECT_NEAR(found, mean, 4 * deviation / std::sqrt(double(count)) + 1e-3) << row.name;
      EXPECT_NEAR(spread, deviation, deviation * (4 / std::sqrt(double(count)) + 0.45)) << row.name;
    };
    if (const auto* plain = std::get_if<PlainWeight>(&row.into)) {
      const Tensor& tensor = *plain->into;
      const auto value = [&](int64_t i) -> double {
        return tensor.dtype == DType::f32 ? tensor.as<float>()[i] : to_f32(tensor.as<bf16>()[i]);
      };
      const bool scale = row.name.ends_with("scale"), bias = row.name.ends_with("bias");
      near(scale,
           scale                                                           ? 0.1
           : bias                                                          ? 0.02
           : row.name == "embedding.weight" || row.name.ends_with("sinks") ? 1
                                                                           : 1 / std::sqrt(192.0),
           value, tensor.elements());
    } else if (const Weight& weight = *std::get<PackedWeight>(row.into).into;
               weight.format == Format::mxfp4) {
      const auto* codes = static_cast<const uint8_t*>(weight.data);
      const int64_t count = int64_t(weight.experts) * weight.rows * weight.columns;
      const auto value = [&](int64_t i) -> double {
        return mxfp4_value(codes + i / 32 * 16, codes[count / 2 + i / 32], int(i % 32));
      };
      near(0, 1 / std::sqrt(weight.columns), value, count);
    } else {
      const auto value = [&](int64_t i) -> double {
        return to_f32(static_cast<const bf16*>(weight.data)[i]);
      };
      near(0, 1 / std::sqrt(weight.columns), value, int64_t(weight.rows) * weight.columns);
    }
  }
}

TEST_F(Loader, dummy_weights_follow_from_the_seed_and_not_from_the_threads) {
  const std::string demo = ROSE_SOURCE_DIR "/models/demo";
  const auto once = contents(*load(demo, "dummy", 7));
  ThreadPool three(3);
  stream_.threads = &three;
  EXPECT_TRUE(once == contents(*load(demo, "dummy", 7)));
  const auto other = contents(*load(demo, "dummy", 8));
  for (const auto& [name, bytes] : once) EXPECT_TRUE(other.at(name) != bytes) << name;
  EXPECT_TRUE(once.at("block.0.attn.qkv.bias") != once.at("block.1.attn.qkv.bias"));
  const std::string& experts = once.at("block.0.mlp.mlp2_weight");  // 16 of [192, 192]
  const size_t codes = experts.find(']') + 1, matrix = 192 * 192 / 2;
  EXPECT_TRUE(experts.substr(codes, matrix) != experts.substr(codes + matrix, matrix));
}

}  // namespace
}  // namespace rose
