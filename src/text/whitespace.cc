#include "text/whitespace.h"

namespace rose {
namespace {

// All of White_Space beyond ASCII.
constexpr std::string_view kWideSpaces[] = {
    "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003",
    "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
    "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
};

}  // namespace

size_t whitespace_at(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  const char c = text[at];
  if (c == ' ' || (c >= '\t' && c <= '\r')) return 1;
  if (static_cast<unsigned char>(c) < 0x80) return 0;
  for (const std::string_view space : kWideSpaces)
    if (text.substr(at, space.size()) == space) return space.size();
  return 0;
}

std::string_view trim_start(std::string_view text) {
  while (const size_t length = whitespace_at(text, 0)) text.remove_prefix(length);
  return text;
}

std::string_view trim(std::string_view text) {
  text = trim_start(text);
  for (bool trimmed = true; trimmed && !text.empty();) {
    trimmed = false;
    for (size_t length = 1; length <= 3 && length <= text.size(); ++length)
      if (whitespace_at(text, text.size() - length) == length) {
        text.remove_suffix(length);
        trimmed = true;
        break;
      }
  }
  return text;
}

}  // namespace rose
