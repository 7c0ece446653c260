// Reads JSON from front to back without building a tree: a vocabulary is 28 MB of it, where a tree
// would cost seconds and hundreds of megabytes. Small values inside are taken out with raw() and
// given to parse_json.
//
//   reader.begin('{');
//   while (reader.more('}')) { name = reader.key(); … one of string(), integer(), raw(), begin() … }
//
// The first mistake stops it: every later call returns nothing and false, and status() says what
// was wrong at which byte.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rose {

class JsonReader {
 public:
  // `text` lies in `whole`, from whose front places are counted.
  JsonReader(std::string_view text, std::string_view whole)
      : text_(text), origin_(size_t(text.data() - whole.data())) {}
  explicit JsonReader(std::string_view text) : JsonReader(text, text) {}

  void begin(char open);      // '{' or '['
  bool more(char close);      // is there another member or element? false: past `close`
  std::string_view key();     // of a member, and its colon
  std::string_view string();  // unescaped; valid until the next string() or key()
  int integer();              // 0 to 2^31 - 1
  std::string_view raw();     // any value, as it is written
  char peek();                // the first character of the next value; 0 at the end
  void end();                 // nothing but space may follow

  bool failed() const { return !status_.has_value(); }
  const Status& status() const { return status_; }
  // For mistakes that the caller sees: the message gets the place.
  void fail_here(const std::string& message, ErrorKind kind = ErrorKind::corrupt);

 private:
  void skip_space();
  bool take(char wanted);
  void wanted(const char* what);
  std::string_view escaped_string(size_t begin);
  bool unescape();

  std::string_view text_;
  size_t origin_;  // of the text in what it is part of
  size_t at_ = 0;
  bool first_ = false;   // just behind an opening bracket, where no comma belongs
  std::string scratch_;  // of a string with escapes
  Status status_ = Done{};
};

}  // namespace rose
