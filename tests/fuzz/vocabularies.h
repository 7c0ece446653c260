// The vocabularies that targets share, loaded when first asked for.
#pragma once
#include <string>

#include "base/check.h"
#include "text/tokenizer.h"

namespace rose::fuzz {

inline Tokenizer load_tokenizer(const char* path) {
  auto loaded = Tokenizer::load(std::string(ROSE_SOURCE_DIR) + path);
  ROSE_CHECK(loaded.has_value(), "%s", loaded.error().message.c_str());
  return std::move(*loaded);
}
inline const Tokenizer& demo_tokenizer() {
  static const Tokenizer tokenizer = load_tokenizer("/models/demo/tokenizer.json");
  return tokenizer;
}
inline const Tokenizer& full_tokenizer() {
  static const Tokenizer tokenizer = load_tokenizer("/tests/data/o200k_base.tiktoken");
  return tokenizer;
}

}  // namespace rose::fuzz
