#include "text/grammar/json_objects.h"

#include <map>

#include "base/json.h"

namespace rose::grammar {

namespace {

std::string quoted(const std::string& name) { return dump_json(Json(name)); }

// A tree of the listed names, byte by byte. What leaves it is another name.
struct NameTree {
  std::map<uint8_t, NameTree> next;
  bool is_name = false;
  bool cut = false;  // a name so long that what follows is not looked at
};

constexpr size_t kLongestName = 256;

bool needs_escape(const std::string& name) {
  for (const char c : name)
    if (uint8_t(c) < 0x20 || c == '"' || c == '\\') return true;
  return false;
}

class OtherName {
 public:
  explicit OtherName(Grammar& grammar) : grammar_(grammar) {
    const auto rule = [&](Expr expr) {
      const Rule made = grammar.declare();
      grammar.define(made, expr);
      return grammar.call(made);
    };
    beyond_ascii_ = rule(chars(grammar, normal({{0x80, 0x10FFFF}}), Writing::plain));
    rest_ = rule(grammar.sequence(
        {grammar.star(grammar.any_of({grammar.bytes(plain_ascii()), beyond_ascii_})),
         grammar.literal("\"")}));
  }

  // The rest of a name that is none of the listed ones, and the quote after it. Without escapes, so
  // that each name is written in one way only; it may leave the tree at whole characters only.
  Expr after(const NameTree& tree) {
    if (tree.cut) return grammar_.nothing();
    ByteSet ascii = plain_ascii();
    bool leads = false, in_character = false;
    std::vector<Expr> parts, leave;
    for (const auto& [byte, below] : tree.next) {
      leads |= byte >= 0xC0;
      in_character |= byte >= 0x80 && byte < 0xC0;
      ascii.reset(byte);
      parts.push_back(grammar_.sequence({grammar_.bytes(byte, byte), after(below)}));
    }
    if (!in_character) {
      leave.push_back(grammar_.bytes(ascii));
      if (!leads) leave.push_back(beyond_ascii_);
      parts.push_back(grammar_.sequence({grammar_.any_of(std::move(leave)), rest_}));
      if (!tree.is_name) parts.push_back(grammar_.literal("\""));
    }
    return grammar_.any_of(std::move(parts));
  }

 private:
  static ByteSet plain_ascii() {
    ByteSet set;
    for (size_t byte = 0x20; byte < 0x80; ++byte) set.set(byte);
    return set.reset('"').reset('\\');
  }

  Grammar& grammar_;
  Expr beyond_ascii_, rest_;
};

Expr other_key(Grammar& grammar, JsonRules& json, const std::vector<Property>& properties) {
  if (properties.empty()) return json.string();
  NameTree tree;
  for (const Property& property : properties) {
    if (needs_escape(property.name)) continue;  // no other name can be this one, having no escapes
    NameTree* at = &tree;
    for (const char byte : property.name.substr(0, kLongestName)) at = &at->next[uint8_t(byte)];
    at->is_name = true;
    at->cut |= property.name.size() > kLongestName;
  }
  return grammar.sequence({grammar.literal("\""), OtherName(grammar).after(tree)});
}

}  // namespace

// Two rules for each property i: what is left to write from i on, when something was written before
// (a comma comes first) and when nothing was. Each is what follows it plus one member, so that all of
// them together are as large as the list.
Expr object_of(Grammar& grammar, JsonRules& json, const std::vector<Property>& properties,
               std::optional<Expr> others) {
  Grammar& g = grammar;
  const auto rule = [&](Expr expr) {
    const Rule made = g.declare();
    g.define(made, expr);
    return g.call(made);
  };
  const Expr comma = g.sequence({g.literal(","), json.space()});
  const Expr close = rule(g.sequence({json.space(), g.literal("}")}));
  Expr after = close, first = g.literal("}");
  if (others) {
    const Expr other = rule(json.member(other_key(g, json, properties), *others));
    after = rule(g.sequence({g.star(g.sequence({comma, other})), close}));
    first = rule(g.any_of({first, g.sequence({other, after})}));
  }
  for (auto property = properties.rbegin(); property != properties.rend(); ++property) {
    const Expr member = rule(json.member(g.literal(quoted(property->name)), property->value));
    const Expr then = g.sequence({member, after});
    first = rule(property->required ? then : g.any_of({then, first}));
    const Expr another = g.sequence({comma, member});
    after = rule(g.sequence({property->required ? another : g.optional(another), after}));
  }
  return g.sequence({g.literal("{"), json.space(), first});
}

}  // namespace rose::grammar
