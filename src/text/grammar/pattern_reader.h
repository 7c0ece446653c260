// Reads the characters of a pattern or grammar text, one code point at a time, and the parts that
// regular expressions and EBNF share: escapes, classes in brackets, repetition counts.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/grammar/chars.h"

namespace rose::grammar {

inline constexpr uint32_t kNoChar = 0xFFFFFFFF;
inline constexpr int kMaxCount = 100'000;  // {m,n}
inline constexpr int kMaxNesting = 200;

struct Count {
  int low = 1, high = 1;
};

class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ >= text_.size(); }
  size_t position() const { return at_; }
  void rewind(size_t position) { at_ = position; }
  std::string_view rest() const { return text_.substr(at_); }
  std::string_view since(size_t position) const { return text_.substr(position, at_ - position); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view expected);
  uint32_t next();  // kNoChar: not UTF-8, or the end

  // "… at byte 7 of '^[a-'".
  tl::unexpected<Error> wrong(const std::string& what) const;

  // After a backslash. Letters that stand for a set (\d) give it; others one character.
  Result<CharSet> escape(bool in_class);
  // After '['.
  Result<CharSet> char_class();
  // *, +, ?, {m}, {m,}, {m,n}; once where there is none.
  Result<Count> count();

 private:
  Result<uint32_t> hex(int digits);
  Result<uint32_t> code_unit();
  Result<int> number();

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace rose::grammar
