// Numbers between bounds, digit by digit: a number is within them if its first digit that differs
// from a bound's lies on the right side.
#include <algorithm>

#include "text/grammar/json_rules.h"

namespace rose::grammar {

namespace {

Expr digits(Grammar& grammar, int at_least, int at_most) {
  return grammar.repeat(grammar.bytes('0', '9'), at_least, at_most);
}

Expr digit(Grammar& grammar, char first, char last) {
  return grammar.bytes(uint8_t(first), uint8_t(last));
}

bool all_are(std::string_view text, char c) {
  return text.find_first_not_of(c) == std::string_view::npos;
}

// Strings of digits as long as both, from low to high.
Expr same_length(Grammar& grammar, std::string_view low, std::string_view high) {
  const int size = int(low.size());
  if (all_are(low, '0') && all_are(high, '9')) return digits(grammar, size, size);
  if (low[0] == high[0])
    return grammar.sequence(
        {digit(grammar, low[0], low[0]), same_length(grammar, low.substr(1), high.substr(1))});
  char first = low[0], last = high[0];
  std::vector<Expr> parts;
  const std::string nines(low.size() - 1, '9'), zeros(low.size() - 1, '0');
  if (!all_are(low.substr(1), '0')) {
    parts.push_back(grammar.sequence(
        {digit(grammar, first, first), same_length(grammar, low.substr(1), nines)}));
    ++first;
  }
  if (!all_are(high.substr(1), '9')) {
    parts.push_back(grammar.sequence(
        {digit(grammar, last, last), same_length(grammar, zeros, high.substr(1))}));
    --last;
  }
  if (first <= last)
    parts.push_back(
        grammar.sequence({digit(grammar, first, last), digits(grammar, size - 1, size - 1)}));
  return grammar.any_of(std::move(parts));
}

// 0 <= low.
Expr natural_between(Grammar& grammar, int64_t low, int64_t high) {
  std::vector<Expr> parts;
  int64_t least = 0, most = 9;  // of this many digits
  for (size_t size = 1; size <= size_t(kMaxDigits); ++size) {
    if (low <= most && high >= least)
      parts.push_back(same_length(grammar, std::to_string(std::max(low, least)),
                                  std::to_string(std::min(high, most))));
    least = most + 1;
    most = most * 10 + 9;
  }
  return grammar.any_of(std::move(parts));
}

// What may follow the whole part of a number, so that its fraction lies between these.
class Fraction {
 public:
  struct Edge {
    std::string digits = {};  // after the point
    bool open = false;
    bool given = false;
  };
  // `most` digits, so that with the whole part every reader holds the number exactly: rounded, it
  // could be an open bound itself.
  Fraction(Grammar& grammar, Edge low, Edge high, int most)
      : grammar_(grammar), low_(std::move(low)), high_(std::move(high)) {
    most_ = std::min(std::max({kUsual, low_.digits.size() + 1, high_.digits.size() + 1}),
                     size_t(std::max(most, 0)));
  }

  Expr after_whole() {
    std::vector<Expr> parts;
    if (may_end(0, low_.given, high_.given)) parts.push_back(grammar_.empty());
    if (most_ > 0)
      parts.push_back(grammar_.sequence({grammar_.literal("."), more(0, low_.given, high_.given)}));
    return grammar_.any_of(std::move(parts));
  }

 private:
  static constexpr size_t kUsual = 6;

  static bool zeros_from(const Edge& edge, size_t at) {
    return at >= edge.digits.size() || all_are(std::string_view(edge.digits).substr(at), '0');
  }
  static char at(const Edge& edge, size_t position) {
    return position < edge.digits.size() ? edge.digits[position] : '0';
  }

  // The digits so far are those of the low (high) edge, if `on_low` (`on_high`).
  bool may_end(size_t done, bool on_low, bool on_high) const {
    if (on_low && (!zeros_from(low_, done) || low_.open)) return false;
    return !(on_high && zeros_from(high_, done) && high_.open);
  }

  Expr tail(size_t done, bool on_low, bool on_high) {
    if (!on_low && !on_high) return digits(grammar_, 0, int(most_ - done));
    std::vector<Expr> parts;
    if (may_end(done, on_low, on_high)) parts.push_back(grammar_.empty());
    if (done < most_) parts.push_back(more(done, on_low, on_high));
    return grammar_.any_of(std::move(parts));
  }

  Expr more(size_t done, bool on_low, bool on_high) {
    if (!on_low && !on_high) return digits(grammar_, 1, int(most_ - done));
    char first = on_low ? at(low_, done) : '0', last = on_high ? at(high_, done) : '9';
    std::vector<Expr> parts;
    const auto edge = [&](char c, bool low, bool high) {
      parts.push_back(grammar_.sequence({digit(grammar_, c, c), tail(done + 1, low, high)}));
    };
    if (on_low && on_high && first > last) return grammar_.nothing();
    if (on_low && on_high && first == last) {
      edge(first, true, true);
      return parts[0];
    }
    if (on_low) edge(first++, true, false);
    if (on_high) edge(last--, false, true);
    if (first <= last)
      parts.push_back(
          grammar_.sequence({digit(grammar_, first, last), tail(done + 1, false, false)}));
    return grammar_.any_of(std::move(parts));
  }

  Grammar& grammar_;
  const Edge low_, high_;
  size_t most_;
};

struct Decimal {
  int64_t whole = 0;
  std::string fraction = {};
  bool open = false;
};

// Of a magnitude; what is too large lies past all numbers.
Decimal decimal(const Bound& bound) {
  const size_t sign = bound.text.starts_with('-') ? 1 : 0;
  const size_t point = std::min(bound.text.find('.'), bound.text.size());
  const std::string whole = bound.text.substr(sign, point - sign);
  if (whole.size() > size_t(kMaxDigits)) return {.whole = kMaxInteger + 1};
  Decimal out = {.whole = std::stoll(whole), .open = bound.open};
  if (point < bound.text.size()) out.fraction = bound.text.substr(point + 1);
  return out;
}

// 0 <= low.
Expr magnitude_between(Grammar& grammar, const Decimal& low, const Decimal& high) {
  using Edge = Fraction::Edge;
  const Edge low_edge = {low.fraction, low.open, true};
  const Edge high_edge = {high.fraction, high.open, true};
  const auto number = [&](int64_t first, int64_t last, const Edge& from, const Edge& to) {
    const int digits = int(std::to_string(last).size());
    return grammar.sequence({natural_between(grammar, first, last),
                             Fraction(grammar, from, to, kMaxDigits - digits).after_whole()});
  };
  if (low.whole > high.whole) return grammar.nothing();
  if (low.whole == high.whole) return number(low.whole, low.whole, low_edge, high_edge);
  std::vector<Expr> parts = {number(low.whole, low.whole, low_edge, {}),
                             number(high.whole, high.whole, {}, high_edge)};
  if (low.whole + 1 < high.whole) parts.push_back(number(low.whole + 1, high.whole - 1, {}, {}));
  return grammar.any_of(std::move(parts));
}

bool is_negative(const std::optional<Bound>& bound) {
  return bound && bound->text.starts_with('-') &&
         bound->text.find_first_of("123456789") != std::string::npos;
}

}  // namespace

Expr integer_between(Grammar& grammar, int64_t low, int64_t high) {
  low = std::max(low, -kMaxInteger);
  high = std::min(high, kMaxInteger);
  std::vector<Expr> parts;
  if (low > high) return grammar.nothing();
  if (high >= 0) parts.push_back(natural_between(grammar, std::max<int64_t>(low, 0), high));
  if (low < 0)
    parts.push_back(grammar.sequence(
        {grammar.literal("-"), natural_between(grammar, std::max<int64_t>(-high, 1), -low)}));
  return grammar.any_of(std::move(parts));
}

Expr number_between(Grammar& grammar, const std::optional<Bound>& low,
                    const std::optional<Bound>& high) {
  const Decimal largest = {.whole = kMaxInteger}, zero = {}, above_zero = {.open = true};
  std::vector<Expr> parts;
  if (!is_negative(high))
    parts.push_back(magnitude_between(grammar, low && !is_negative(low) ? decimal(*low) : zero,
                                      high ? decimal(*high) : largest));
  if (!low || is_negative(low))
    parts.push_back(grammar.sequence(
        {grammar.literal("-"),
         magnitude_between(grammar, is_negative(high) ? decimal(*high) : above_zero,
                           low ? decimal(*low) : largest)}));
  return grammar.any_of(std::move(parts));
}

}  // namespace rose::grammar
