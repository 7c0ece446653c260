#include "text/grammar/json_rules.h"

#include <algorithm>

namespace rose::grammar {

namespace {

constexpr int kMaxIndent = 32;

ByteSet set_of(std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) set.set(uint8_t(byte));
  return set;
}

}  // namespace

Rule JsonRules::define(Expr expr) {
  const Rule rule = grammar_.declare();
  grammar_.define(rule, expr);
  return rule;
}

JsonRules::JsonRules(Grammar& grammar) : grammar_(grammar) {
  Grammar& g = grammar;
  const Expr digit = g.bytes('0', '9');
  const Expr hex = g.bytes(set_of("0123456789abcdefABCDEF"));
  space_ = define(g.optional(
      g.any_of({g.literal(" "),
                g.sequence({g.literal("\n"), g.repeat(g.bytes(set_of(" \t")), 0, kMaxIndent)})})));

  // As it is; behind a backslash; as a number, where half a surrogate pair is no character.
  const CharSet plain = complement(normal({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
  const Expr not_d = g.bytes(set_of("0123456789abcefABCEF"));
  const Expr code = g.any_of({g.sequence({not_d, hex, hex, hex}),
                              g.sequence({g.bytes(set_of("dD")), g.bytes('0', '7'), hex, hex})});
  character_ = define(
      g.any_of({chars(g, plain, Writing::plain),
                g.sequence({g.literal("\\"), g.any_of({g.bytes(set_of("\"\\/bfnrt")),
                                                       g.sequence({g.literal("u"), code})})})}));
  string_ = define(g.sequence({g.literal("\""), g.star(g.call(character_)), g.literal("\"")}));

  const Expr whole = g.any_of(
      {g.literal("0"), g.sequence({g.bytes('1', '9'), g.repeat(digit, 0, kMaxDigits - 1)})});
  integer_ = define(integer_between(g, -kMaxInteger, kMaxInteger));
  const Expr fraction = g.sequence({g.literal("."), g.repeat(digit, 1, kMaxDigits)});
  const Expr exponent =
      g.sequence({g.bytes(set_of("eE")), g.optional(g.bytes(set_of("+-"))), g.repeat(digit, 1, 2)});
  number_ = define(
      g.sequence({g.optional(g.literal("-")), whole, g.optional(fraction), g.optional(exponent)}));

  value_ = g.declare();
  object_ = define(list("{", member(g.call(string_), g.call(value_)), "}", 0, kNoLimit));
  array_ = define(list("[", g.call(value_), "]", 0, kNoLimit));
  g.define(value_, g.any_of({object(), array(), g.call(string_), number(), boolean(), null()}));
}

Expr JsonRules::string(int at_least, int at_most) {
  if (at_least == 0 && at_most == kNoLimit) return grammar_.call(string_);
  const Expr quote = grammar_.literal("\"");
  return grammar_.sequence({quote, grammar_.repeat(character(), at_least, at_most), quote});
}

Expr JsonRules::member(Expr key, Expr value) {
  return grammar_.sequence({key, grammar_.literal(":"), space(), value});
}

Expr JsonRules::list(const char* open, Expr part, const char* close, int at_least, int at_most) {
  Grammar& g = grammar_;
  const Expr none = g.sequence({g.literal(open), space(), g.literal(close)});
  if (at_most == 0) return none;
  const Expr more = g.sequence({g.literal(","), space(), part});
  const Expr some = g.sequence({g.literal(open), space(), part,
                                g.repeat(more, at_least > 1 ? at_least - 1 : 0,
                                         at_most == kNoLimit ? kNoLimit : at_most - 1),
                                space(), g.literal(close)});
  return at_least > 0 ? some : g.any_of({none, some});
}

Expr JsonRules::tuple(const std::vector<Expr>& first, std::optional<Expr> others, int at_least,
                      int at_most) {
  Grammar& g = grammar_;
  const int given = int(first.size());
  const bool limited = at_most != kNoLimit;
  // What follows item i - 1, built from the end.
  Expr rest = g.empty();
  if (others && (!limited || at_most > given))
    rest = g.repeat(g.sequence({g.literal(","), space(), *others}), std::max(at_least - given, 0),
                    limited ? at_most - given : kNoLimit);
  else if (at_least > given)
    return g.nothing();
  for (int i = given - 1; i >= 0; --i) {
    if (limited && i >= at_most) {
      rest = g.empty();
      continue;
    }
    rest = g.sequence(
        {i > 0 ? g.sequence({g.literal(","), space()}) : g.empty(), first[size_t(i)], rest});
    if (i >= at_least && i > 0) rest = g.optional(rest);
  }
  const Expr none = g.sequence({g.literal("["), space(), g.literal("]")});
  if (at_most == 0) return none;
  const Expr some = g.sequence({g.literal("["), space(), rest, space(), g.literal("]")});
  return at_least > 0 ? some : g.any_of({none, some});
}

}  // namespace rose::grammar
