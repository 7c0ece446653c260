// The two kinds of files that vocabularies come in, read into the same parts.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/bpe.h"
#include "text/vocabulary.h"

namespace rose {

// A token that is found in text by its name, before any splitting.
struct AddedToken {
  enum class Kind {
    special,  // only where special tokens are allowed
    always    // in any text
  };
  int id;
  std::string name;
  Kind kind = Kind::special;
};

struct VocabularyFile {
  Vocabulary vocabulary;  // the added tokens are in it, hidden
  MergeTable merges;
  WholePiece whole;
  std::string pattern;  // that splits text
  std::vector<AddedToken> added;
};

// Hugging Face's tokenizer.json: byte-level BPE with one split pattern. What would change a token
// and is not understood is an error, never passed over.
Result<VocabularyFile> read_tokenizer_json(std::string_view text);

// Lines of `base64(token) rank`, of o200k_base. Pattern and special tokens are those of
// o200k_harmony, since such a file has neither.
Result<VocabularyFile> read_tiktoken(std::string_view text);

}  // namespace rose
