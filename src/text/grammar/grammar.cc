#include "text/grammar/grammar.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace rose::grammar {

Expr Grammar::add(Node node) {
  size_ += 1 + node.parts.size() + node.text.size();
  nodes_.push_back(std::move(node));
  return Expr(nodes_.size()) - 1;
}

Expr Grammar::bytes(const ByteSet& set) {
  const auto found = std::find(sets_.begin(), sets_.end(), set);
  const int index = int(found - sets_.begin());
  if (found == sets_.end()) sets_.push_back(set);
  return add({.kind = Kind::bytes, .low = index});
}

Expr Grammar::bytes(uint8_t first, uint8_t last) {
  ByteSet set;
  for (int byte = first; byte <= last; ++byte) set.set(size_t(byte));
  return bytes(set);
}

Expr Grammar::special(int token) { return add({.kind = Kind::special, .low = token}); }

Expr Grammar::literal(std::string_view text) {
  return add({.kind = Kind::literal, .text = std::string(text)});
}

Expr Grammar::sequence(std::vector<Expr> parts) {
  if (parts.size() == 1) return parts[0];
  return add({.kind = Kind::sequence, .parts = std::move(parts)});
}

Expr Grammar::any_of(std::vector<Expr> parts) {
  if (parts.size() == 1) return parts[0];
  return add({.kind = Kind::any_of, .parts = std::move(parts)});
}

namespace {

// Of sorted, different texts that agree in their first `common` bytes: what follows those. Goes one
// level deeper for each text that is the beginning of another or parts from its neighbours, and
// never by more than the number of texts.
Expr branches(Grammar& grammar, std::span<const std::string> texts, size_t common) {
  if (texts.size() == 1) return grammar.literal(std::string_view(texts[0]).substr(common));
  const std::string &first = texts.front(), &last = texts.back();
  size_t agreed = common;
  while (agreed < first.size() && agreed < last.size() && first[agreed] == last[agreed]) ++agreed;
  std::vector<Expr> parts;
  size_t from = 0;
  if (first.size() == agreed) {
    parts.push_back(grammar.empty());
    from = 1;
  }
  while (from < texts.size()) {
    size_t to = from + 1;
    while (to < texts.size() && texts[to][agreed] == texts[from][agreed]) ++to;
    parts.push_back(branches(grammar, texts.subspan(from, to - from), agreed));
    from = to;
  }
  const Expr branch = grammar.any_of(std::move(parts));
  if (agreed == common) return branch;
  return grammar.sequence(
      {grammar.literal(std::string_view(first).substr(common, agreed - common)), branch});
}

}  // namespace

Expr Grammar::literals(std::vector<std::string> texts) {
  if (texts.empty()) return nothing();
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  // a, aa, aaa, …: so many that begin each other would nest too deep.
  size_t nested = 0, deepest = 0;
  for (size_t i = 1; i < texts.size(); ++i) {
    nested = texts[i].starts_with(texts[i - 1]) ? nested + 1 : 0;
    deepest = std::max(deepest, nested);
  }
  if (deepest < 500) return branches(*this, texts, 0);
  std::vector<Expr> parts;
  for (const std::string& text : texts) parts.push_back(literal(text));
  return any_of(std::move(parts));
}

Expr Grammar::repeat(Expr part, int at_least, int at_most) {
  ROSE_CHECK(at_least >= 0 && (at_most == kNoLimit || at_least <= at_most),
             "grammar: a repetition of %d to %d times", at_least, at_most);
  if (at_most == 0) return empty();
  if (at_least == 1 && at_most == 1) return part;
  return add({.kind = Kind::repeat, .low = at_least, .high = at_most, .parts = {part}});
}

Expr Grammar::call(Rule rule) { return add({.kind = Kind::call, .low = rule}); }

Rule Grammar::declare() {
  ++size_;
  rules_.push_back(-1);
  return Rule(rules_.size()) - 1;
}

void Grammar::define(Rule rule, Expr expr) {
  ROSE_CHECK(rules_[size_t(rule)] < 0, "grammar: rule %d is defined twice", rule);
  rules_[size_t(rule)] = expr;
}

}  // namespace rose::grammar
