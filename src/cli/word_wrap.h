// Text for a terminal of so many columns: lines break between words. It comes in pieces of whole
// characters, and goes out as soon as it is known on which line it stands.
#pragma once
#include <string>
#include <string_view>

namespace rose {

class WordWrap {
 public:
  // 0 columns: nothing is broken.
  explicit WordWrap(int columns) : columns_(columns) {}

  std::string push(std::string_view text);
  std::string finish();  // the last word; a line begins after it

 private:
  void end_word(std::string& out);

  const int columns_;
  int column_ = 0;    // of the line, taken
  std::string word_;  // that is not out yet
  int word_columns_ = 0;
  std::string space_;  // before it
  int space_columns_ = 0;
};

}  // namespace rose
