// UTF-8, read by the Unicode rules: no overlong forms, no surrogates, nothing past U+10FFFF.
#pragma once
#include <cstddef>
#include <string_view>

namespace rose {

// What text begins with: a whole character; a bad part, which can never become one (the longest
// beginning of a character that its next byte contradicts, or one byte that begins none); or a cut
// one, a good beginning that ends with the text.
struct Utf8Part {
  enum class Kind { whole, bad, cut };
  Kind kind;
  size_t size;  // bytes, 1 to 4
};

Utf8Part utf8_part(std::string_view text);  // text is not empty

// How many bytes from the front are whole characters.
size_t valid_utf8_prefix(std::string_view text);

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace rose
