#include "text/grammar/pattern_reader.h"

#include "base/check.h"
#include "text/utf8.h"

namespace rose::grammar {

namespace {

const CharSet kDigits = {{'0', '9'}};
const CharSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
// What every dialect calls white space, and what any does: \S is none of these.
const CharSet kSpace = {{'\t', '\r'}, {' ', ' '}};
const CharSet kAnySpace = {{'\t', '\r'},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                           {0x1680, 0x1680}, {0x180E, 0x180E}, {0x2000, 0x200B}, {0x2028, 0x2029},
                           {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(uint32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

CharSet one(uint32_t c) { return {{c, c}}; }

}  // namespace

bool PatternReader::take(std::string_view expected) {
  if (!rest().starts_with(expected)) return false;
  at_ += expected.size();
  return true;
}

uint32_t PatternReader::next() {
  if (at_end()) return kNoChar;
  const Utf8Part part = utf8_part(rest());
  if (part.kind != Utf8Part::Kind::whole) return kNoChar;
  const std::string_view bytes = rest().substr(0, part.size);
  at_ += part.size;
  if (part.size == 1) return uint8_t(bytes[0]);
  uint32_t c = uint8_t(bytes[0]) & (0xFFu >> (part.size + 1));
  for (const char byte : bytes.substr(1)) c = c << 6 | (uint8_t(byte) & 0x3F);
  return c;
}

tl::unexpected<Error> PatternReader::wrong(const std::string& what) const {
  return fail(ErrorKind::invalid, strf("%s at byte %zu of '%.80s'", what.c_str(), at_,
                                       std::string(text_.substr(0, 80)).c_str()));
}

Result<uint32_t> PatternReader::hex(int digits) {
  uint32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = peek();
    const int digit = is_digit(c)              ? c - '0'
                      : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                      : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                               : -1;
    if (digit < 0) return wrong(strf("an escape wants %d hexadecimal digits", digits));
    value = value * 16 + uint32_t(digit);
    ++at_;
  }
  return value;
}

// After \u: four digits, also those of a pair of surrogates, or any number in braces.
Result<uint32_t> PatternReader::code_unit() {
  if (take("{")) {
    uint32_t value = 0;
    int digits = 0;
    for (; !take("}"); ++digits) {
      if (digits == 6) return wrong("an escape wants up to six hexadecimal digits");
      value = value * 16 + TRY(hex(1));
    }
    if (digits == 0 || value > 0x10FFFF) return wrong("an escape that is no character");
    return value;
  }
  const uint32_t value = TRY(hex(4));
  if (value >= 0xD800 && value < 0xDC00 && take("\\u")) {
    const uint32_t low = TRY(hex(4));
    if (low >= 0xDC00 && low < 0xE000) return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
    return wrong("half a surrogate pair");
  }
  return value;
}

Result<CharSet> PatternReader::escape(bool in_class) {
  const uint32_t c = next();
  switch (c) {
    case kNoChar: return wrong("a backslash with nothing after it");
    case 'd': return kDigits;
    case 'D': return complement(kDigits);
    case 'w': return kWord;
    case 'W': return complement(kWord);
    case 's': return kSpace;
    case 'S': return complement(kAnySpace);
    case 'n': return one('\n');
    case 'r': return one('\r');
    case 't': return one('\t');
    case 'f': return one('\f');
    case 'v': return one('\v');
    case 'x': return one(TRY(hex(2)));
    case 'u': return one(TRY(code_unit()));
    case '0':
      if (!is_digit(peek())) return one(0);
      break;
    case 'b':
      if (in_class) return one('\b');
      return wrong("\\b (a word boundary) is not supported");
    case 'p':
    case 'P': return wrong("\\p (a Unicode property) is not supported");
    default:
      if (!is_letter(c) && !(c >= '0' && c <= '9')) return one(c);
  }
  if (c < 0x80 && is_digit(char(c)))
    return wrong(strf("\\%c (a back reference) is not supported", int(c)));
  return wrong(strf("\\%c is not supported", int(c)));
}

Result<CharSet> PatternReader::char_class() {
  const bool negated = take("^");
  CharSet set;
  if (peek() == ']') return wrong("a class with nothing in it");
  while (!take("]")) {
    const auto part = [&]() -> Result<CharSet> {
      if (take("\\")) return escape(true);
      const uint32_t c = next();
      if (c == kNoChar) return wrong("a class that is not closed");
      return one(c);
    };
    const CharSet low = TRY(part());
    const bool single = low.size() == 1 && low[0].first == low[0].second;
    if (single && peek() == '-' && !rest().starts_with("-]")) {
      take("-");
      const CharSet high = TRY(part());
      if (high.size() != 1 || high[0].first != high[0].second || high[0].first < low[0].first)
        return wrong("a range that is none");
      set.emplace_back(low[0].first, high[0].first);
    } else {
      set.insert(set.end(), low.begin(), low.end());
    }
  }
  set = normal(std::move(set));
  return negated ? complement(set) : set;
}

Result<int> PatternReader::number() {
  int value = 0;
  if (!is_digit(peek())) return wrong("a number is missing");
  while (is_digit(peek())) {
    value = value * 10 + (peek() - '0');
    if (value > kMaxCount) return wrong(strf("more than %d repetitions", kMaxCount));
    ++at_;
  }
  return value;
}

Result<Count> PatternReader::count() {
  if (take("*")) return Count{0, kNoLimit};
  if (take("+")) return Count{1, kNoLimit};
  if (take("?")) return Count{0, 1};
  // A brace that counts nothing is a character like others.
  if (peek() != '{' || rest().size() < 2 || !is_digit(rest()[1])) return Count{};
  take("{");
  Count count;
  count.low = count.high = TRY(number());
  if (take(",")) count.high = peek() == '}' ? kNoLimit : TRY(number());
  if (!take("}")) return wrong("a repetition wants {m}, {m,} or {m,n}");
  if (count.high != kNoLimit && count.high < count.low)
    return wrong(strf("a repetition of at least %d and at most %d", count.low, count.high));
  return count;
}

}  // namespace rose::grammar
