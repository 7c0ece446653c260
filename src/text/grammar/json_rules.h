// The parts of JSON as grammar, whatever their schema. Numbers, escapes and white space are bounded
// where JSON is not: a model that has lost its way writes spaces or digits without end.
#pragma once
#include <optional>
#include <string>

#include "text/grammar/chars.h"

namespace rose::grammar {

class JsonRules {
 public:
  explicit JsonRules(Grammar& grammar);

  // Between tokens of JSON, where people and models put it: nothing, a space, or a new line and what
  // indents it.
  Expr space() { return grammar_.call(space_); }
  Expr character() { return grammar_.call(character_); }  // of a string, escaped or not
  Expr string(int at_least = 0, int at_most = kNoLimit);
  Expr integer() { return grammar_.call(integer_); }
  Expr number() { return grammar_.call(number_); }
  Expr boolean() { return grammar_.literals({"true", "false"}); }
  Expr null() { return grammar_.literal("null"); }
  Expr object() { return grammar_.call(object_); }
  Expr array() { return grammar_.call(array_); }
  Expr value() { return grammar_.call(value_); }

  // `open` … `close` around parts with commas between them, at least and at most so many.
  Expr list(const char* open, Expr part, const char* close, int at_least, int at_most);
  // The first items each of its own kind; `others`: what may follow them, if anything may.
  Expr tuple(const std::vector<Expr>& first, std::optional<Expr> others, int at_least, int at_most);
  // "key": value
  Expr member(Expr key, Expr value);

 private:
  Rule define(Expr expr);

  Grammar& grammar_;
  Rule space_, character_, string_, integer_, number_, value_, object_, array_;
};

// A bound as it is written in a schema, "-12.5" without an exponent.
struct Bound {
  std::string text;
  bool open = false;  // the bound itself is out
};

Expr integer_between(Grammar& grammar, int64_t low, int64_t high);
// Without exponents.
Expr number_between(Grammar& grammar, const std::optional<Bound>& low,
                    const std::optional<Bound>& high);

// Numbers are this long at most: every reader holds them exactly.
inline constexpr int kMaxDigits = 15;
inline constexpr int64_t kMaxInteger = 999'999'999'999'999;

}  // namespace rose::grammar
