#include "text/utf8.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "text/tokenizer.h"

namespace rose {

namespace {
// How many bytes a character with this first byte has, and what the second may be: that range is
// what keeps out overlong forms, surrogates and all past U+10FFFF (Unicode, table 3-7).
struct Lead {
  size_t size;  // 0: no character begins so
  uint8_t low = 0x80, high = 0xBF;
};

Lead lead(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}
}  // namespace

Utf8Part utf8_part(std::string_view text) {
  using enum Utf8Part::Kind;
  const Lead first = lead(uint8_t(text[0]));
  if (first.size == 0) return {bad, 1};
  for (size_t i = 1; i < first.size; ++i) {
    if (i == text.size()) return {cut, i};
    const uint8_t byte = uint8_t(text[i]);
    const bool fits = i == 1 ? first.low <= byte && byte <= first.high : (byte & 0xC0) == 0x80;
    if (!fits) return {bad, i};
  }
  return {whole, first.size};
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight;
    if (text.size() - at >= sizeof eight) {  // eight ASCII characters at once
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if (!(eight & 0x8080808080808080u)) {
        at += sizeof eight;
        continue;
      }
    }
    const Utf8Part part = utf8_part(text.substr(at));
    if (part.kind != Utf8Part::Kind::whole) break;
    at += part.size;
  }
  return at;
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string out;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const size_t valid = valid_utf8_prefix(rest);
    out += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    const Utf8Part part = utf8_part(rest);
    if (part.kind == Utf8Part::Kind::cut) break;
    out += kReplacement;
    rest.remove_prefix(part.size);
  }
  pending_ = std::string(rest);
  return out;
}

std::string Utf8Stream::finish() {
  std::string out;
  if (!pending_.empty()) out = kReplacement;  // what is held back is one cut character
  pending_.clear();
  return out;
}

}  // namespace rose
