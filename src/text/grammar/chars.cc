#include "text/grammar/chars.h"

#include <algorithm>

#include "base/check.h"

namespace rose::grammar {

namespace {

constexpr uint32_t kLastChar = 0x10FFFF;

struct Utf8 {
  uint8_t bytes[4];
  int size;
};

Utf8 encode(uint32_t c) {
  const auto tail = [&](int shift) { return uint8_t(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {{uint8_t(c)}, 1};
  if (c < 0x800) return {{uint8_t(0xC0 | c >> 6), tail(0)}, 2};
  if (c < 0x10000) return {{uint8_t(0xE0 | c >> 12), tail(6), tail(0)}, 3};
  return {{uint8_t(0xF0 | c >> 18), tail(12), tail(6), tail(0)}, 4};
}

// Byte strings of one length from `low` to `high`: those with the first byte of `low`, those between,
// those with the first of `high`.
Expr between(Grammar& grammar, const uint8_t* low, const uint8_t* high, int size) {
  if (size == 1) return grammar.bytes(*low, *high);
  if (*low == *high)
    return grammar.sequence(
        {grammar.bytes(*low, *low), between(grammar, low + 1, high + 1, size - 1)});
  static constexpr uint8_t kLeast[] = {0x80, 0x80, 0x80}, kMost[] = {0xBF, 0xBF, 0xBF};
  std::vector<Expr> parts;
  int first = *low, last = *high;
  if (!std::equal(low + 1, low + size, kLeast)) {
    parts.push_back(
        grammar.sequence({grammar.bytes(*low, *low), between(grammar, low + 1, kMost, size - 1)}));
    ++first;
  }
  if (!std::equal(high + 1, high + size, kMost)) {
    parts.push_back(grammar.sequence(
        {grammar.bytes(*high, *high), between(grammar, kLeast, high + 1, size - 1)}));
    --last;
  }
  if (first <= last)
    parts.push_back(grammar.sequence(
        {grammar.bytes(uint8_t(first), uint8_t(last)), between(grammar, kLeast, kMost, size - 1)}));
  return grammar.any_of(std::move(parts));
}

// Escapes of JSON for what must not stand in a string as it is.
std::string escaped(uint32_t c) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\b': return "\\b";
    case '\f': return "\\f";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return strf("\\u%04x", c);
  }
}

bool must_escape(uint32_t c) { return c < 0x20 || c == '"' || c == '\\'; }

}  // namespace

CharSet normal(CharSet set) {
  std::sort(set.begin(), set.end());
  CharSet joined;
  for (auto [first, last] : set) {
    last = std::min(last, kLastChar);
    if (first > last) continue;
    if (!joined.empty() && first <= joined.back().second + 1)
      joined.back().second = std::max(joined.back().second, last);
    else
      joined.emplace_back(first, last);
  }
  CharSet out;  // without the surrogates D800..DFFF
  for (const auto& [first, last] : joined) {
    if (first < 0xD800) out.emplace_back(first, std::min(last, 0xD7FFu));
    if (last > 0xDFFF) out.emplace_back(std::max(first, 0xE000u), last);
  }
  return out;
}

CharSet complement(const CharSet& set) {
  CharSet out;
  uint32_t from = 0;
  for (const auto& [first, last] : set) {
    if (first > from) out.emplace_back(from, first - 1);
    from = last + 1;
  }
  if (from <= kLastChar) out.emplace_back(from, kLastChar);
  return normal(std::move(out));
}

Expr chars(Grammar& grammar, const CharSet& set, Writing writing) {
  ByteSet ascii;
  std::vector<Expr> parts;
  std::vector<std::string> escapes;
  for (const auto& [set_first, set_last] : set) {
    uint32_t first = set_first;
    for (; first <= set_last && first < 0x80; ++first) {
      if (writing == Writing::json_string && must_escape(first))
        escapes.push_back(escaped(first));
      else
        ascii.set(first);
    }
    while (first <= set_last) {  // cut where the number of bytes changes
      const uint32_t end = first < 0x800 ? 0x7FF : first < 0x10000 ? 0xFFFF : kLastChar;
      const uint32_t last = std::min(set_last, end);
      const Utf8 low = encode(first), high = encode(last);
      parts.push_back(between(grammar, low.bytes, high.bytes, low.size));
      first = last + 1;
    }
  }
  if (ascii.any()) parts.push_back(grammar.bytes(ascii));
  if (!escapes.empty()) parts.push_back(grammar.literals(std::move(escapes)));
  return grammar.any_of(std::move(parts));
}

Expr text(Grammar& grammar, std::string_view utf8, Writing writing) {
  if (writing == Writing::plain) return grammar.literal(utf8);
  std::string out;
  for (const char c : utf8)
    out += must_escape(uint8_t(c)) ? escaped(uint8_t(c)) : std::string(1, c);
  return grammar.literal(out);
}

}  // namespace rose::grammar
