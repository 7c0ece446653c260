#include "text/grammar/json_multiples.h"

#include <cmath>
#include <map>

#include "base/check.h"
#include "base/json.h"

namespace rose::grammar {

namespace {

constexpr int64_t kMostListed = 10'000;  // between bounds
constexpr int kMostRemainders = 100;     // without bounds

// Digits after a number whose remainder is known, so that the whole is a multiple.
class Remainders {
 public:
  Remainders(Grammar& grammar, int of) : grammar_(grammar), of_(of) {}

  Expr positive() {
    std::vector<Expr> first;
    for (int digit = 1; digit <= 9; ++digit)
      first.push_back(grammar_.sequence({one(digit), after(digit % of_, kMaxDigits - 1)}));
    return grammar_.any_of(std::move(first));
  }

 private:
  Expr one(int digit) { return grammar_.bytes(uint8_t('0' + digit), uint8_t('0' + digit)); }

  Expr after(int remainder, int left) {
    const auto [known, added] = rules_.try_emplace({remainder, left}, 0);
    if (added) {
      const Rule rule = known->second = grammar_.declare();
      std::vector<Expr> ways;
      if (remainder == 0) ways.push_back(grammar_.empty());
      for (int digit = 0; left > 0 && digit <= 9; ++digit)
        ways.push_back(
            grammar_.sequence({one(digit), after((10 * remainder + digit) % of_, left - 1)}));
      grammar_.define(rule, grammar_.any_of(std::move(ways)));
      return grammar_.call(rule);
    }
    return grammar_.call(known->second);
  }

  Grammar& grammar_;
  const int of_;
  std::map<std::pair<int, int>, Rule> rules_;
};

Result<Expr> listed(Grammar& grammar, int64_t of, const Bounds& bounds) {
  const auto [low, high] = integers_within(bounds);
  const int64_t least = std::max(low, -kMaxInteger), most = std::min(high, kMaxInteger);
  int64_t first = least / of * of;
  if (first < least) first += of;
  if (first <= most && (most - first) / of >= kMostListed)
    return refuse(strf("'multipleOf' %ld has more than %ld values between its bounds", long(of),
                       long(kMostListed)));
  std::vector<std::string> texts;
  for (int64_t value = first; value <= most; value += of) texts.push_back(std::to_string(value));
  return grammar.literals(std::move(texts));
}

// Multiples of 0.01: with two decimals at most.
Expr decimals(Grammar& grammar, int most) {
  const Expr digit = grammar.bytes('0', '9');
  const Expr whole = grammar.any_of(
      {grammar.literal("0"), grammar.sequence({grammar.bytes('1', '9'),
                                               grammar.repeat(digit, 0, kMaxDigits - 1 - most)})});
  const Expr fraction = grammar.sequence({grammar.literal("."), grammar.repeat(digit, 1, most)});
  return grammar.sequence(
      {grammar.optional(grammar.literal("-")), whole, grammar.optional(fraction)});
}

}  // namespace

Result<Expr> multiples(Grammar& grammar, const Json& of, const Bounds& bounds, bool whole) {
  const std::string text = dump_json(of).substr(0, 40);
  const double value = of.is_number() ? of.get<double>() : 0;
  if (!(value > 0)) return refuse("'multipleOf' must be a number above 0");
  if (value != std::floor(value) || value > 1e9) {
    for (int places = 1; !whole && places <= 9 && !bounds.low && !bounds.high; ++places)
      if (value == std::strtod(strf("1e-%d", places).c_str(), nullptr))
        return decimals(grammar, places);
    return refuse("'multipleOf' " + text +
                  " is not supported here, wanted a whole number, or 0.1, 0.01, … without bounds");
  }
  if (bounds.low && bounds.high) return listed(grammar, int64_t(value), bounds);
  const bool from_zero = bounds.low && std::strtod(bounds.low->text.c_str(), nullptr) == 0;
  if (bounds.high || (bounds.low && !from_zero))
    return refuse("'multipleOf' beside one bound that is not a minimum of 0 is not supported");
  if (value > kMostRemainders)
    return refuse(
        "'multipleOf' " + text +
        strf(" without minimum and maximum is not supported, at most %d is", kMostRemainders));
  const Expr positive = Remainders(grammar, int(value)).positive();
  std::vector<Expr> ways = {positive};
  if (!bounds.low || !bounds.low->open) ways.push_back(grammar.literal("0"));
  if (!bounds.low) ways.push_back(grammar.sequence({grammar.literal("-"), positive}));
  return grammar.any_of(std::move(ways));
}

}  // namespace rose::grammar
