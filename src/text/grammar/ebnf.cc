#include "text/grammar/ebnf.h"

#include <map>

#include "base/check.h"
#include "text/grammar/pattern_reader.h"

namespace rose::grammar {

namespace {

constexpr size_t kMaxText = 64 * 1024;

bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

class EbnfParser {
 public:
  EbnfParser(Grammar& grammar, std::string_view text) : grammar_(grammar), in_(text) {}

  Result<Expr> parse() {
    std::string first;
    for (skip(); !in_.at_end(); skip()) {
      const std::string name = take_name();
      if (name.empty()) return in_.wrong("a rule wants a name");
      skip();
      if (!in_.take("::=")) return in_.wrong("after a rule's name comes '::='");
      Named& rule = named(name);
      if (rule.defined) return in_.wrong("rule '" + name + "' is there twice");
      rule.defined = true;
      grammar_.define(rule.rule, TRY(alternatives(0)));
      if (first.empty()) first = name;
    }
    if (first.empty()) return fail(ErrorKind::invalid, "a grammar without a rule");
    for (const auto& [name, rule] : rules_)
      if (!rule.defined)
        return fail(ErrorKind::invalid,
                    "rule '" + name.substr(0, 80) + "' is used but not defined");
    const auto root = rules_.find("root");
    return grammar_.call(root != rules_.end() ? root->second.rule : rules_.at(first).rule);
  }

 private:
  struct Named {
    Rule rule;
    bool defined = false;
  };

  // White space and comments.
  void skip() {
    while (!in_.at_end()) {
      if (in_.peek() == '#')
        while (!in_.at_end() && in_.peek() != '\n') in_.rewind(in_.position() + 1);
      else if (in_.peek() == ' ' || in_.peek() == '\t' || in_.peek() == '\n' || in_.peek() == '\r')
        in_.rewind(in_.position() + 1);
      else
        return;
    }
  }

  std::string take_name() {
    const size_t from = in_.position();
    while (in_name(in_.peek())) in_.rewind(in_.position() + 1);
    return std::string(in_.since(from));
  }

  Named& named(const std::string& name) {
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second;
    return rules_[name] = {.rule = grammar_.declare()};
  }

  // Where the next rule begins, this one ends.
  bool at_next_rule() {
    const size_t from = in_.position();
    const bool name = !take_name().empty();
    skip();
    const bool begins = name && in_.rest().starts_with("::=");
    in_.rewind(from);
    return begins;
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
    for (skip(); !in_.at_end() && in_.peek() != '|' && in_.peek() != ')' && !at_next_rule();
         skip()) {
      const Expr part = TRY(atom(depth));
      skip();
      const Count count = TRY(in_.count());
      parts.push_back(grammar_.repeat(part, count.low, count.high));
    }
    return grammar_.sequence(std::move(parts));
  }

  Result<Expr> atom(int depth) {
    if (in_.take("(")) {
      const Expr inner = TRY(alternatives(depth + 1));
      if (!in_.take(")")) return in_.wrong("a group that is not closed");
      return inner;
    }
    if (in_.take("\"")) return literal('"');
    if (in_.take("'")) return literal('\'');
    if (in_.take("[")) return chars(grammar_, TRY(in_.char_class()), Writing::plain);
    if (in_.take(".")) return chars(grammar_, all_chars(), Writing::plain);
    const std::string name = take_name();
    if (name.empty())
      return in_.wrong("wanted a literal in quotes, a class, a group or a rule's name");
    return grammar_.call(named(name).rule);
  }

  Result<Expr> literal(char quote) {
    std::vector<Expr> parts;
    while (!in_.take(std::string_view(&quote, 1))) {
      if (in_.take("\\")) {
        parts.push_back(chars(grammar_, normal(TRY(in_.escape(true))), Writing::plain));
        continue;
      }
      const size_t from = in_.position();
      if (in_.next() == kNoChar) return in_.wrong("a literal that is not closed");
      parts.push_back(grammar_.literal(in_.since(from)));
    }
    return grammar_.sequence(std::move(parts));
  }

  Grammar& grammar_;
  PatternReader in_;
  std::map<std::string, Named> rules_;
};

}  // namespace

Result<Expr> ebnf(Grammar& grammar, std::string_view text) {
  if (text.size() > kMaxText)
    return fail(ErrorKind::invalid,
                strf("a grammar of %zu bytes, the limit is %zu", text.size(), kMaxText));
  return EbnfParser(grammar, text).parse();
}

}  // namespace rose::grammar
