#include "text/grammar/regex.h"

#include "base/check.h"
#include "text/grammar/pattern_reader.h"

namespace rose::grammar {

namespace {

// What '.' does not match, in any dialect.
const CharSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}};

class RegexParser {
 public:
  RegexParser(Grammar& grammar, std::string_view pattern, Extent extent, Writing writing)
      : grammar_(grammar), in_(pattern), extent_(extent), writing_(writing) {}

  Result<Expr> parse() {
    std::vector<Expr> alternatives;
    do {
      std::vector<Expr> parts;
      if (!in_.take("^")) add_anything(parts);
      parts.push_back(TRY(sequence(0)));
      if (!in_.take("$")) add_anything(parts);
      alternatives.push_back(grammar_.sequence(std::move(parts)));
    } while (in_.take("|"));
    if (in_.peek() == ')') return in_.wrong("a ')' that closes nothing");
    if (!in_.at_end()) return in_.wrong("'$' is supported at the end only");
    return grammar_.any_of(std::move(alternatives));
  }

 private:
  void add_anything(std::vector<Expr>& parts) {
    if (extent_ == Extent::anywhere)
      parts.push_back(grammar_.star(chars(grammar_, all_chars(), writing_)));
  }

  Result<Expr> alternatives(int depth) {
    if (depth > kMaxNesting) return in_.wrong(strf("groups nested more than %d deep", kMaxNesting));
    std::vector<Expr> parts;
    do {
      parts.push_back(TRY(sequence(depth)));
    } while (in_.take("|"));
    return grammar_.any_of(std::move(parts));
  }

  Result<Expr> sequence(int depth) {
    std::vector<Expr> parts;
    while (!in_.at_end() && in_.peek() != '|' && in_.peek() != ')' && in_.peek() != '$') {
      if (grammar_.too_large()) return in_.wrong("too large");
      const Expr part = TRY(atom(depth));
      const Count count = TRY(in_.count());
      in_.take("?");  // how eagerly it matches makes no other language
      if (in_.peek() == '*' || in_.peek() == '+' || in_.peek() == '?')
        return in_.wrong("a repetition of a repetition");
      parts.push_back(grammar_.repeat(part, count.low, count.high));
    }
    return grammar_.sequence(std::move(parts));
  }

  Result<Expr> atom(int depth) {
    if (in_.take("(")) return group(depth);
    if (in_.take("[")) return set(TRY(in_.char_class()));
    if (in_.take("\\")) return set(normal(TRY(in_.escape(false))));
    if (in_.take(".")) return set(complement(kLineEnds));
    if (in_.peek() == '^') return in_.wrong("'^' is supported at the beginning only");
    if (in_.peek() == '*' || in_.peek() == '+' || in_.peek() == '?')
      return in_.wrong("nothing to repeat");
    const uint32_t c = in_.next();
    if (c == kNoChar) return in_.wrong("not UTF-8");
    return set({{c, c}});
  }

  Result<Expr> group(int depth) {
    if (in_.take("?") && !in_.take(":")) {
      const bool named = in_.take("<") || in_.take("P<");
      if (named && in_.peek() != '=' && in_.peek() != '!') {
        while (!in_.at_end() && !in_.take(">")) in_.next();
      } else {
        return in_.wrong("(? (a look-around or flag) is not supported");
      }
    }
    const Expr inner = TRY(alternatives(depth + 1));
    if (in_.peek() == '$') return in_.wrong("'$' inside a group is not supported");
    if (!in_.take(")")) return in_.wrong("a group that is not closed");
    return inner;
  }

  Expr set(const CharSet& set) { return chars(grammar_, set, writing_); }

  Grammar& grammar_;
  PatternReader in_;
  const Extent extent_;
  const Writing writing_;
};

}  // namespace

Result<Expr> regex(Grammar& grammar, std::string_view pattern, Extent extent, Writing writing) {
  return RegexParser(grammar, pattern, extent, writing).parse();
}

}  // namespace rose::grammar
