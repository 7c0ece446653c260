// What a text may be, as rules over bytes and special tokens. A Grammar only describes: a Program
// (program.h) is what runs. Front ends (JSON Schema, regular expressions, EBNF, chat formats) build
// it with the functions below; an Expr and a Rule belong to the Grammar that made them.
#pragma once
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rose::grammar {

using ByteSet = std::bitset<256>;
using Expr = int;
using Rule = int;

inline constexpr int kNoLimit = -1;

class Grammar {
 public:
  enum class Kind : uint8_t { bytes, special, literal, sequence, any_of, repeat, call };
  struct Node {
    Kind kind;
    int low = 0;                   // bytes: which set; special: token; call: rule; repeat: at least
    int high = 0;                  // repeat: at most, or kNoLimit
    std::vector<Expr> parts = {};  // sequence, any_of; repeat: one
    std::string text = {};         // literal
  };

  Expr empty() { return sequence({}); }
  Expr nothing() { return any_of({}); }  // not even the empty text
  Expr bytes(const ByteSet& set);
  Expr bytes(uint8_t first, uint8_t last);
  Expr special(int token);
  Expr literal(std::string_view text);
  Expr sequence(std::vector<Expr> parts);
  Expr any_of(std::vector<Expr> parts);
  Expr literals(std::vector<std::string> texts);  // any of them; common beginnings are shared
  Expr repeat(Expr part, int at_least, int at_most);
  Expr optional(Expr part) { return repeat(part, 0, 1); }
  Expr star(Expr part) { return repeat(part, 0, kNoLimit); }
  Expr call(Rule rule);

  Rule declare();
  void define(Rule rule, Expr expr);

  const Node& node(Expr expr) const { return nodes_[size_t(expr)]; }
  const ByteSet& set(int index) const { return sets_[size_t(index)]; }
  int sets() const { return int(sets_.size()); }
  int rules() const { return int(rules_.size()); }
  Expr definition(Rule rule) const { return rules_[size_t(rule)]; }

  // What it takes: front ends refuse what makes this too large (kMaxSize).
  size_t size() const { return size_; }
  static constexpr size_t kMaxSize = 400'000;
  bool too_large() const { return size_ > kMaxSize; }

 private:
  Expr add(Node node);

  std::vector<Node> nodes_;
  std::vector<ByteSet> sets_;  // all different
  std::vector<Expr> rules_;    // -1: declared only
  size_t size_ = 0;
};

}  // namespace rose::grammar
