#include "api/json_text.h"

#include "base/check.h"

namespace rose {

namespace {

// Bytes of the UTF-8 character that `text` begins with, which is no ASCII one; 0: none (too long a
// form, a surrogate, past U+10FFFF, cut short).
size_t character_bytes(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? (unsigned char)text[i] : 0u; };
  const auto follows = [&](size_t i) { return (at(i) & 0xC0) == 0x80; };
  const unsigned lead = at(0), second = at(1);
  if (lead >= 0xC2 && lead <= 0xDF) return follows(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F)) return 0;
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) return 0;
    return follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t plain = 0;  // what lies between here and i goes out as it is
  size_t i = 0;
  const auto replace = [&](std::string_view with) {
    out.append(text, plain, i - plain);
    out += with;
    plain = ++i;
  };
  while (i < text.size()) {
    const auto c = (unsigned char)text[i];
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      ++i;
    } else if (c >= 0x80) {
      if (const size_t bytes = character_bytes(text.substr(i)))
        i += bytes;
      else
        replace("\xEF\xBF\xBD");
    } else {
      switch (c) {
        case '"': replace("\\\""); break;
        case '\\': replace("\\\\"); break;
        case '\n': replace("\\n"); break;
        case '\r': replace("\\r"); break;
        case '\t': replace("\\t"); break;
        default: replace(strf("\\u%04x", c));
      }
    }
  }
  out.append(text, plain);
  out += '"';
}

}  // namespace rose
