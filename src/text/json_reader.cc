#include "text/json_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/check.h"

namespace rose {

namespace {
bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Four hexadecimal digits.
std::optional<uint32_t> hex4(std::string_view digits) {
  if (digits.size() < 4) return {};
  uint32_t value = 0;
  for (const char c : digits.substr(0, 4)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return {};
    value = value * 16 + uint32_t(digit);
  }
  return value;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto tail = [&](int shift) { out += char(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    out += char(code);
  } else if (code < 0x800) {
    out += char(0xC0 | (code >> 6)), tail(0);
  } else if (code < 0x10000) {
    out += char(0xE0 | (code >> 12)), tail(6), tail(0);
  } else {
    out += char(0xF0 | (code >> 18)), tail(12), tail(6), tail(0);
  }
}
}  // namespace

void JsonReader::fail_here(const std::string& message, ErrorKind kind) {
  if (failed()) return;
  status_ = fail(kind, strf("%s (byte %zu)", message.c_str(), origin_ + at_));
  at_ = text_.size();
}

void JsonReader::wanted(const char* what) {
  if (at_ >= text_.size()) return fail_here(strf("JSON: the text ends where %s should be", what));
  const uint8_t c = uint8_t(text_[at_]);
  const std::string found = c > 0x20 && c < 0x7F ? strf("'%c'", c) : strf("byte 0x%02x", c);
  fail_here(strf("JSON: found %s where %s should be", found.c_str(), what));
}

void JsonReader::skip_space() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
}

bool JsonReader::take(char wanted) {
  skip_space();
  if (at_ >= text_.size() || text_[at_] != wanted) return false;
  ++at_;
  return true;
}

char JsonReader::peek() {
  skip_space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonReader::begin(char open) {
  if (!take(open)) return wanted(open == '{' ? "an object" : "an array");
  first_ = true;
}

bool JsonReader::more(char close) {
  const bool first = std::exchange(first_, false);
  if (failed() || take(close)) return false;
  if (first || take(',')) return true;
  wanted(close == '}' ? "',' or '}'" : "',' or ']'");
  return false;
}

std::string_view JsonReader::key() {
  const std::string_view name = string();
  if (!failed() && !take(':')) wanted("':'");
  return name;
}

std::string_view JsonReader::string() {
  if (!take('"')) {
    wanted("a string");
    return {};
  }
  const size_t begin = at_;
  while (at_ < text_.size()) {
    if (text_[at_] == '"') return text_.substr(begin, at_++ - begin);
    if (text_[at_] == '\\') return escaped_string(begin);
    ++at_;
  }
  wanted("the end of a string");
  return {};
}

std::string_view JsonReader::escaped_string(size_t begin) {
  scratch_.assign(text_.substr(begin, at_ - begin));
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') return scratch_;
    if (c != '\\') {
      scratch_ += c;
    } else if (!unescape()) {
      fail_here("JSON: a string has a broken escape");
      return {};
    }
  }
  wanted("the end of a string");
  return {};
}

// What follows a backslash.
bool JsonReader::unescape() {
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  if (at_ >= text_.size()) return false;
  const char c = text_[at_++];
  if (const size_t i = kLetters.find(c); i != kLetters.npos) {
    scratch_ += kMeanings[i];
    return true;
  }
  if (c != 'u') return false;
  const auto unit = hex4(text_.substr(at_));
  if (!unit) return false;
  at_ += 4;
  if (*unit < 0xD800 || *unit > 0xDFFF) {
    append_utf8(scratch_, *unit);
    return true;
  }
  if (*unit > 0xDBFF || !text_.substr(at_).starts_with("\\u")) return false;  // half a pair
  const auto low = hex4(text_.substr(at_ + 2));
  if (!low || *low < 0xDC00 || *low > 0xDFFF) return false;
  at_ += 6;
  append_utf8(scratch_, 0x10000 + ((*unit - 0xD800) << 10) + (*low - 0xDC00));
  return true;
}

int JsonReader::integer() {
  skip_space();
  int64_t value = 0;
  const size_t begin = at_;
  while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
    value = value * 10 + (text_[at_++] - '0');
    if (value > std::numeric_limits<int>::max()) break;
  }
  const char next = at_ < text_.size() ? text_[at_] : '\0';
  const bool whole = next != '.' && next != 'e' && next != 'E';
  if (at_ == begin || !whole || value > std::numeric_limits<int>::max()) {
    at_ = begin;
    wanted("a whole number from 0 to 2147483647");
    return 0;
  }
  return int(value);
}

namespace {
// Where raw() must look closer.
constexpr std::array<bool, 256> kStructural = [] {
  std::array<bool, 256> structural = {};
  for (const char c : {'"', '{', '}', '[', ']', ','}) structural[uint8_t(c)] = true;
  return structural;
}();

// Behind the closing quote of a string whose first character is at `at`; past the end if none.
size_t past_string(std::string_view text, size_t at) {
  for (;;) {
    const size_t quote = text.find('"', at);
    if (quote == text.npos) return text.size() + 1;
    size_t escapes = 0;  // backslashes in a row before it: an odd number makes it a character
    while (quote - escapes > at && text[quote - escapes - 1] == '\\') ++escapes;
    at = quote + 1;
    if (escapes % 2 == 0) return at;
  }
}
}  // namespace

// Looks at brackets and strings only: whoever takes the value out checks the rest.
std::string_view JsonReader::raw() {
  skip_space();
  const size_t begin = at_;
  size_t at = at_, depth = 0;
  bool done = false;
  while (!done && at < text_.size()) {
    switch (kStructural[uint8_t(text_[at])] ? text_[at] : 0) {
      case '"': at = past_string(text_, at + 1); continue;
      case '{':
      case '[': ++depth; break;
      case '}':
      case ']': done = depth-- == 0; break;
      case ',': done = depth == 0; break;
    }
    at += !done;
  }
  at_ = std::min(at, text_.size());
  if (at > text_.size()) wanted("the end of a string");
  if (!done && depth > 0) wanted("the end of a value");
  return failed() ? std::string_view() : text_.substr(begin, at_ - begin);
}

void JsonReader::end() {
  skip_space();
  if (!failed() && at_ < text_.size()) wanted("the end of the text");
}

}  // namespace rose
