#include "fuzz/targets.h"

namespace rose::fuzz {

std::span<const Target> targets() {
  static constexpr Target kTargets[] = {
      {"http", http},           {"requests", requests},     {"harmony", harmony},
      {"tokenizer", tokenizer}, {"vocabulary", vocabulary}, {"safetensors", safetensors},
      {"schema", schema},
  };
  return kTargets;
}

}  // namespace rose::fuzz
