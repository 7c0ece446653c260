#include "model/families.h"

namespace rose {

namespace {

struct Family {
  const char* architecture;  // as config.json has it
  Result<std::unique_ptr<Model>> (*make)(const ModelConfig&);
};

constexpr Family kFamilies[] = {
    {"GptOssForCausalLM", make_gpt_oss},
};

}  // namespace

Result<std::unique_ptr<Model>> make_model(const ModelConfig& config) {
  std::string names;
  for (const Family& family : kFamilies) {
    if (config.architecture == family.architecture) return family.make(config);
    names += std::string(names.empty() ? "" : ", ") + family.architecture;
  }
  return fail(ErrorKind::unsupported, strf("no model family '%s'; this build has: %s",
                                           config.architecture.c_str(), names.c_str()));
}

}  // namespace rose
