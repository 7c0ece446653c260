#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"

namespace rose {

namespace {

constexpr int kMaxSize = 1 << 24;                     // of any one count
constexpr double kMaxParameters = 1ull << 44;         // 17 T: past what any memory holds
constexpr const char* kFamily = "GptOssForCausalLM";  // whose names the spellings below are

// Reads numbers out of an object, each under any of several spellings.
class Fields {
 public:
  using Names = std::initializer_list<const char*>;

  explicit Fields(const Json& object) : object_(object) {}

  // The first of the names that is there and not null.
  const Json* find(Names names) const {
    for (const char* name : names)
      if (const auto at = object_.find(name); at != object_.end() && !at->is_null()) return &*at;
    return nullptr;
  }

  Result<double> number(Names names) const {
    const Json* value = find(names);
    if (!value) return fail(ErrorKind::invalid, strf("%s is missing", *names.begin()));
    if (!value->is_number())
      return fail(ErrorKind::invalid,
                  strf("%s is %s, wanted a number", *names.begin(), shown(*value).c_str()));
    return value->get<double>();
  }

  Result<double> number(Names names, double otherwise) const {
    if (!find(names)) return otherwise;
    return number(names);
  }

  // A count of something: whole (64 or 64.0), at least `least`.
  Result<int> count(Names names, int least = 1, int most = kMaxSize) const {
    const double value = TRY(number(names));
    if (value != std::floor(value) || value < least || value > most)
      return fail(ErrorKind::invalid,
                  strf("%s is %s, wanted a whole number from %d to %d", *names.begin(),
                       shown(*find(names)).c_str(), least, most));
    return int(value);
  }

  Result<bool> flag(Names names, bool otherwise) const {
    const Json* value = find(names);
    if (!value) return otherwise;
    if (!value->is_boolean())
      return fail(ErrorKind::invalid,
                  strf("%s is %s, wanted true or false", *names.begin(), shown(*value).c_str()));
    return value->get<bool>();
  }

  static std::string shown(const Json& value) {
    constexpr size_t kMost = 60;
    const std::string text = dump_json(value);
    return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
  }

 private:
  const Json& object_;
};

Result<std::string> read_architecture(const Fields& fields) {
  if (const Json* names = fields.find({"architectures"})) {
    if (!names->is_array() || names->size() != 1 || !names->front().is_string())
      return fail(ErrorKind::invalid,
                  strf("architectures is %s, wanted one name", Fields::shown(*names).c_str()));
    return names->front().get<std::string>();
  }
  const Json* type = fields.find({"model_type"});
  // The `original/` spelling names no family: its fields do.
  if (type ? *type == "gpt_oss" : fields.find({"rope_ntk_alpha"}) != nullptr) return kFamily;
  return fail(ErrorKind::invalid, "architectures is missing");
}

Status read_rope(const Fields& fields, ModelConfig& config) {
  // Newest first: theta and scaling together; then apart; `original/` has flat fields of its own.
  const Json* scaling = fields.find({"rope_parameters", "rope_scaling"});
  if (scaling && !scaling->is_object())
    return fail(ErrorKind::invalid,
                strf("rope_scaling is %s, wanted an object", Fields::shown(*scaling).c_str()));
  const Json none = Json::object();
  const Fields rope(scaling ? *scaling : none);

  config.rope_theta =
      TRY((rope.find({"rope_theta"}) ? rope : fields).number({"rope_theta"}, config.rope_theta));
  const Json* type = rope.find({"rope_type", "type"});
  if (type && *type != "yarn" && *type != "default")
    return fail(ErrorKind::unsupported, strf("rope_type is %s, this build has yarn and default",
                                             Fields::shown(*type).c_str()));
  if (const Json* factor = rope.find({"attention_factor", "mscale", "mscale_all_dim"}))
    return fail(
        ErrorKind::unsupported,
        strf("the rotation's own concentration (%s) is not supported: it follows from factor",
             Fields::shown(*factor).c_str()));

  if (!type || *type == "yarn") {
    config.rope_factor = TRY(type      ? rope.number({"factor"})
                             : scaling ? rope.number({"factor"}, 1)
                                       : fields.number({"rope_scaling_factor"}, 1));
    config.rope_beta_fast = TRY(scaling ? rope.number({"beta_fast"}, config.rope_beta_fast)
                                        : fields.number({"rope_ntk_beta"}, config.rope_beta_fast));
    config.rope_beta_slow = TRY(scaling ? rope.number({"beta_slow"}, config.rope_beta_slow)
                                        : fields.number({"rope_ntk_alpha"}, config.rope_beta_slow));
    config.rope_truncate = TRY(rope.flag({"truncate"}, config.rope_truncate));
  }
  const bool inside = rope.find({"original_max_position_embeddings"}) != nullptr;
  if (inside || fields.find({"initial_context_length"}))
    config.rope_original_context =
        TRY((inside ? rope : fields)
                .count({inside ? "original_max_position_embeddings" : "initial_context_length"}, 1,
                       INT32_MAX));

  const std::pair<const char*, double> positive[] = {{"rope_theta", config.rope_theta},
                                                     {"rope factor", config.rope_factor},
                                                     {"rope beta_fast", config.rope_beta_fast},
                                                     {"rope beta_slow", config.rope_beta_slow}};
  for (const auto& [name, value] : positive)
    if (!(value > 0 && value < 1e12))
      return fail(ErrorKind::invalid, strf("%s is %g, wanted more than 0", name, value));
  if (config.rope_theta <= 1)
    return fail(ErrorKind::invalid,
                strf("rope_theta is %g, wanted more than 1", config.rope_theta));
  return Done{};
}

Status read_layer_types(const Fields& fields, ModelConfig& config) {
  const Json* types = fields.find({"layer_types"});
  if (!types) {
    for (int layer = 0; layer < config.layers; ++layer)
      config.sliding_layer.push_back(layer % 2 == 0);
    return Done{};
  }
  if (!types->is_array() || int64_t(types->size()) != config.layers)
    return fail(ErrorKind::invalid,
                strf("layer_types has %zu entries, num_hidden_layers is %d",
                     types->is_array() ? types->size() : size_t(0), config.layers));
  for (const Json& type : *types) {
    if (type != "sliding_attention" && type != "full_attention")
      return fail(ErrorKind::unsupported,
                  strf("layer_types holds %s, this build has sliding_attention and full_attention",
                       Fields::shown(type).c_str()));
    config.sliding_layer.push_back(type == "sliding_attention");
  }
  return Done{};
}

// Adds eos_token_id: an id, a list of them, or nothing.
Status read_eos(const Fields& fields, ModelConfig& config) {
  const Json* value = fields.find({"eos_token_id"});
  if (!value) return Done{};
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& token : list) {
    if (!token.is_number_integer() || token < 0 || token >= config.vocab)
      return fail(ErrorKind::invalid, strf("eos_token_id is %s, wanted token ids below %d",
                                           Fields::shown(*value).c_str(), config.vocab));
    const int id = token.get<int>();
    if (std::find(config.eos_tokens.begin(), config.eos_tokens.end(), id) ==
        config.eos_tokens.end())
      config.eos_tokens.push_back(id);
  }
  return Done{};
}

// What of the checkpoint this build could only get silently wrong.
Status check_supported(const Fields& fields) {
  if (const Json* quantization = fields.find({"quantization_config"})) {
    const Json* method =
        quantization->is_object() ? Fields(*quantization).find({"quant_method"}) : nullptr;
    if (!method || *method != "mxfp4")
      return fail(ErrorKind::unsupported,
                  strf("quantization_config.quant_method is %s, this build reads \"mxfp4\" or none",
                       method ? Fields::shown(*method).c_str() : "missing"));
  }
  if (TRY(fields.flag({"tie_word_embeddings"}, false)))
    return fail(ErrorKind::unsupported, "tie_word_embeddings is true, wanted false");
  return Done{};
}

Status check_sizes(const ModelConfig& c) {
  const auto wrong = [](const char* format, auto... values) {
    return fail(ErrorKind::invalid, strf(format, values...));
  };
  if (c.heads % c.kv_heads != 0)
    return wrong("num_attention_heads is %d, no multiple of num_key_value_heads %d", c.heads,
                 c.kv_heads);
  if (c.head_dim % 2 != 0) return wrong("head_dim is %d, wanted an even number", c.head_dim);
  if (c.top_k > c.experts)
    return wrong("num_experts_per_tok is %d of num_local_experts %d", c.top_k, c.experts);
  // Weights are kept, and met by activations, in blocks of 32 along their inputs.
  if (c.heads * int64_t(c.head_dim) % 32 != 0)
    return wrong("num_attention_heads x head_dim is %d x %d, wanted a multiple of 32", c.heads,
                 c.head_dim);
  if (c.hidden % 32 != 0) return wrong("hidden_size is %d, wanted a multiple of 32", c.hidden);
  if (c.ffn % 32 != 0) return wrong("intermediate_size is %d, wanted a multiple of 32", c.ffn);
  const double attention = double(c.heads + c.kv_heads) * 2 * c.head_dim * c.hidden;
  const double experts = double(c.experts) * 3 * c.ffn * c.hidden;
  const double parameters = c.layers * (attention + experts) + 2.0 * c.vocab * c.hidden;
  if (parameters > kMaxParameters || double(c.heads) * c.head_dim > kMaxSize)
    return wrong("the sizes make %.3g parameters, more than memory can hold", parameters);
  return Done{};
}

Result<Json> read_object(const std::string& path) {
  const std::string text = TRY(read_file(path));
  Json json = TRY(within(parse_json(text), path));
  if (!json.is_object()) return fail(ErrorKind::invalid, path + ": not a JSON object");
  return json;
}

}  // namespace

Result<ModelConfig> parse_config(const Json& json) {
  if (!json.is_object()) return fail(ErrorKind::invalid, "not a JSON object");
  const Fields fields(json);
  ModelConfig config;
  config.architecture = TRY(read_architecture(fields));
  // Only this family's fields are known by name here; another's are its own file's to read.
  if (config.architecture != kFamily)
    return fail(ErrorKind::unsupported, strf("no model family '%s'; this build has: %s",
                                             config.architecture.substr(0, 60).c_str(), kFamily));
  config.layers = TRY(fields.count({"num_hidden_layers"}, 1, 4096));
  config.hidden = TRY(fields.count({"hidden_size"}));
  config.heads = TRY(fields.count({"num_attention_heads"}));
  config.kv_heads = TRY(fields.count({"num_key_value_heads"}));
  config.head_dim = TRY(fields.count({"head_dim"}));
  config.vocab = TRY(fields.count({"vocab_size"}));
  config.experts = TRY(fields.count({"num_local_experts", "num_experts"}));
  config.top_k = TRY(fields.count({"num_experts_per_tok", "experts_per_token"}));
  config.ffn = TRY(fields.count({"intermediate_size"}));
  config.rms_eps = float(TRY(fields.number({"rms_norm_eps"}, config.rms_eps)));
  config.swiglu_limit = float(TRY(fields.number({"swiglu_limit"}, config.swiglu_limit)));
  config.window = TRY(fields.count({"sliding_window"}, 1, INT32_MAX));
  TRY(read_layer_types(fields, config));
  TRY(read_rope(fields, config));

  if (fields.find({"max_position_embeddings"})) {
    config.max_context = TRY(fields.count({"max_position_embeddings"}, 1, INT32_MAX));
  } else {
    const double context = config.rope_original_context * config.rope_factor;
    config.max_context = int(std::min(context, double(INT32_MAX)));
  }
  if (!(config.rms_eps >= 0 && config.rms_eps < 1))
    return fail(ErrorKind::invalid, strf("rms_norm_eps is %g, wanted 0 to 1", config.rms_eps));
  if (!(config.swiglu_limit > 0))
    return fail(ErrorKind::invalid,
                strf("swiglu_limit is %g, wanted more than 0", config.swiglu_limit));
  TRY(read_eos(fields, config));
  TRY(check_supported(fields));
  TRY(check_sizes(config));
  return config;
}

Result<ModelConfig> read_config(const std::string& model) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path path =
      fs::is_regular_file(model, ignored) ? fs::path(model) : fs::path(model) / "config.json";
  const Json json = TRY(read_object(path));
  ModelConfig config = TRY(within(parse_config(json), path));

  const fs::path generation_path = path.parent_path() / "generation_config.json";
  if (!fs::exists(generation_path, ignored)) return config;
  const Json generation = TRY(read_object(generation_path));
  TRY(within(read_eos(Fields(generation), config), generation_path));
  return config;
}

}  // namespace rose
