// Sizes of a model, from the config.json of a checkpoint: the Hugging Face spelling, its newer
// `rope_parameters` form, or the one of the `original/` folder.
#pragma once
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"

namespace rose {

struct ModelConfig {
  std::string architecture;  // "GptOssForCausalLM": which family reads the rest
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int vocab = 0;
  int experts = 0;
  int top_k = 0;  // experts for each token
  int ffn = 0;    // of one expert
  float rms_eps = 1e-5f;
  float swiglu_limit = 7.0f;

  int window = 0;                   // tokens a sliding layer sees, the newest included
  std::vector<bool> sliding_layer;  // [layers]

  double rope_theta = 150000;
  double rope_factor = 1;  // of YaRN; 1: plain rotation
  double rope_beta_fast = 32;
  double rope_beta_slow = 1;
  int rope_original_context = 4096;
  bool rope_truncate = false;
  int max_context = 0;

  std::vector<int> eos_tokens;  // config.json and generation_config.json together
};

// The sizes in `config`; an impossible one (heads that kv_heads do not divide, a count of zero, more
// than memory can address) is named in the error.
Result<ModelConfig> parse_config(const Json& config);

// Reads config.json of a model folder (or the file named), and generation_config.json beside it where
// there is one.
Result<ModelConfig> read_config(const std::string& model);

}  // namespace rose
