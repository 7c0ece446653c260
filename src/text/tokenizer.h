// Text to token ids and back: byte-level BPE whose vocabulary, split pattern and special tokens are
// data, read from a Hugging Face tokenizer.json (also gzipped) or from a .tiktoken file, to which
// the special tokens of o200k_harmony are added.
//
// Text may be any bytes: runs that are no UTF-8 are encoded on their own, as single bytes that merge,
// and decode(encode(text)) == text always holds. Time grows (nearly) linearly whatever the text is.
//
// Immutable once loaded; every method may be called from any thread.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rose {

class Tokenizer {
 public:
  // A tokenizer.json, tokenizer.json.gz or *.tiktoken file, or a model folder that holds one.
  static Result<Tokenizer> load(const std::string& path);

  // Names of special tokens in the text are ordinary text: what users write can never forge a header.
  std::vector<int> encode(std::string_view text) const;
  // Names of special tokens become their ids: for prompts that are written by hand.
  std::vector<int> encode_special(std::string_view text) const;

  // The bytes of the tokens (special ones as their names), which may end inside a character.
  std::string decode(std::span<const int> tokens) const;
  // The bytes of one token; empty for an id that has no token.
  std::string_view bytes(int token) const;

  std::optional<int> special(std::string_view name) const;  // "<|start|>" -> id
  bool is_special(int token) const;
  int vocab() const;  // one more than the highest id

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

 private:
  struct Tables;
  explicit Tokenizer(std::unique_ptr<Tables> tables);
  std::unique_ptr<Tables> tables_;
};

// Cuts a stream of bytes into whole UTF-8 characters: holds back at most 3 bytes of an unfinished
// one; bytes that can never become a character come out as U+FFFD, one for each maximal bad part
// (the Unicode recommendation, what Rust's and Python's decoders do).
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);  // what is complete now
  std::string finish();                      // what was held back, as U+FFFD

 private:
  std::string pending_;
};

}  // namespace rose
