// A vocabulary file is refused, or text goes through it and comes back.
#include "text/vocabulary_file.h"

#include "base/check.h"
#include "fuzz/targets.h"
#include "text/splitter.h"

namespace rose::fuzz {

void vocabulary(std::string_view input) {
  const size_t begin = input.find_first_not_of(" \t\r\n");
  const bool json = begin != input.npos && input[begin] == '{';
  auto file = json ? read_tokenizer_json(input) : read_tiktoken(input);
  if (!file) {
    ROSE_CHECK(!file.error().message.empty(), "an error without a message");
    return;
  }
  const auto splitter = Splitter::compile(file->pattern);
  const auto bpe = Bpe::make(file->vocabulary, std::move(file->merges), file->whole);
  if (!splitter || !bpe) return;

  const std::string_view text = input.substr(0, 200);
  std::string decoded;
  Splitter::Pieces pieces(*splitter, text);
  for (std::string_view piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    std::vector<int> tokens;
    bpe->encode(file->vocabulary, piece, tokens);
    for (const int token : tokens) decoded += file->vocabulary.bytes(token);
  }
  ROSE_CHECK(decoded == text, "the text does not come back");
}

}  // namespace rose::fuzz
