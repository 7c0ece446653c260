// The families of this build, one function each; the registry (registry.cc) names them.
#pragma once
#include <memory>

#include "model/model.h"

namespace rose {

Result<std::unique_ptr<Model>> make_gpt_oss(const ModelConfig& config);

}  // namespace rose
