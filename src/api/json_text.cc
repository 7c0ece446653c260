#include "api/json_text.h"

#include "base/check.h"
#include "text/utf8.h"

namespace rose {

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t plain = 0;  // what lies between here and i goes out as it is
  size_t i = 0;
  const auto replace = [&](std::string_view with, size_t bytes = 1) {
    out.append(text, plain, i - plain);
    out += with;
    plain = i += bytes;
  };
  while (i < text.size()) {
    const auto c = (unsigned char)text[i];
    if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
      ++i;
    } else if (c >= 0x80) {
      const Utf8Part part = utf8_part(text.substr(i));
      if (part.kind == Utf8Part::Kind::whole)
        i += part.size;
      else
        replace(kReplacement, part.size);
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
