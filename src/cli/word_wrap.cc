#include "cli/word_wrap.h"

#include <utility>

#include "text/utf8.h"

namespace rose {

namespace {

// Columns of a character by its first bytes: what is written in East Asia, and pictures, take two. The
// blocks of three bytes from U+2E80 on and of four bytes from U+1F300 on are near enough.
int columns_of(std::string_view character) {
  if (character.size() == 3 && character >= "\xE2\xBA\x80" && character < "\xEF\xBB\xBF") return 2;
  if (character.size() == 4 && character >= "\xF0\x9F\x8C\x80") return 2;
  return 1;
}

}  // namespace

void WordWrap::end_word(std::string& out) {
  if (word_.empty()) return;
  if (column_ > 0 && column_ + space_columns_ + word_columns_ > columns_) {
    out += '\n';
    column_ = 0;
  } else {
    out += space_;
    column_ += space_columns_;
  }
  out += word_;
  // A word longer than a line is broken by the terminal.
  column_ = (column_ + word_columns_ - 1) % columns_ + 1;
  word_.clear();
  space_.clear();
  word_columns_ = space_columns_ = 0;
}

std::string WordWrap::push(std::string_view text) {
  if (columns_ <= 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::string_view character = text.substr(0, utf8_part(text).size);
    text.remove_prefix(character.size());
    if (character == "\n") {
      end_word(out);
      out += std::exchange(space_, {}) + '\n';
      column_ = space_columns_ = 0;
    } else if (character == " " || character == "\t") {
      end_word(out);
      space_ += character;
      space_columns_ += character == " " ? 1 : 8;
    } else {
      word_ += character;
      word_columns_ += columns_of(character);
      if (columns_of(character) == 2) end_word(out);  // such a line may break anywhere
    }
  }
  return out;
}

std::string WordWrap::finish() {
  std::string out;
  end_word(out);
  space_.clear();
  column_ = space_columns_ = 0;
  return out;
}

}  // namespace rose
