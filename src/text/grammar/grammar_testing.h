// What the tests of grammars share: vocabularies, texts tried byte by byte, and random walks that
// write whatever the masks allow.
#pragma once
#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/rng.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/matcher.h"

namespace rose::grammar::testing {

inline const Tokenizer& load_once(const char* path) {
  static std::map<std::string, std::unique_ptr<Tokenizer>> loaded;
  auto& tokenizer = loaded[path];
  if (!tokenizer) {
    auto read = Tokenizer::load(std::string(ROSE_SOURCE_DIR) + path);
    ROSE_CHECK(read.has_value(), "%s", read.error().message.c_str());
    tokenizer = std::make_unique<Tokenizer>(std::move(*read));
  }
  return *tokenizer;
}
inline const Tokenizer& demo_tokenizer() { return load_once("/models/demo/tokenizer.json"); }
inline const Tokenizer& full_tokenizer() {
  return load_once("/tests/data/gpt-oss-tokenizer.json.gz");
}
inline std::shared_ptr<const TokenTrie> demo_trie() {
  static const auto trie = std::make_shared<const TokenTrie>(demo_tokenizer());
  return trie;
}
inline std::shared_ptr<const TokenTrie> full_trie() {
  static const auto trie = std::make_shared<const TokenTrie>(full_tokenizer());
  return trie;
}

inline Result<std::shared_ptr<Constraint>> constrain(Grammar& grammar, Result<Expr> expr,
                                                     std::shared_ptr<const TokenTrie> trie,
                                                     const Limits& limits = {}) {
  const Rule root = grammar.declare();
  grammar.define(root, TRY(std::move(expr)));
  return Constraint::make(grammar, root, std::move(trie), limits);
}
inline Result<std::shared_ptr<Constraint>> constrain_json(const Json& schema,
                                                          std::shared_ptr<const TokenTrie> trie,
                                                          const Limits& limits = {}) {
  Grammar grammar;
  return constrain(grammar, json_schema(grammar, schema), std::move(trie), limits);
}

// Whether a whole text is one of the grammar's.
class Language {
 public:
  Language(Grammar& grammar, Expr expr) {
    const Rule root = grammar.declare();
    grammar.define(root, expr);
    auto program = Program::compile(grammar, root);
    if (program) automaton_ = std::make_unique<Automaton>(std::move(*program), 16);
  }
  bool has(std::string_view text) {
    if (!automaton_) return false;
    int state = automaton_->start();
    for (const char byte : text)
      state = automaton_->next(state, automaton_->program().class_of_byte[uint8_t(byte)]);
    return automaton_->may_end(state);
  }

 private:
  std::unique_ptr<Automaton> automaton_;
};

inline bool allows(const Mask& mask, int token) {
  return (*mask)[size_t(token) / 32] >> (token % 32) & 1;
}

// The tokens that a mask allows, in order: found by counting words, because a vocabulary has 200,000 tokens.
class Allowed {
 public:
  explicit Allowed(Mask mask) : mask_(std::move(mask)) {
    for (const uint32_t word : *mask_) ends_.push_back(size() + size_t(std::popcount(word)));
  }
  size_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  int operator[](size_t i) const {
    const size_t word = size_t(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
    uint32_t bits = (*mask_)[word];
    for (size_t before = word ? ends_[word - 1] : 0; before < i; ++before) bits &= bits - 1;
    return int(word * 32) + std::countr_zero(bits);
  }

 private:
  Mask mask_;
  std::vector<size_t> ends_;  // of each word: allowed tokens up to its end
};

struct Walk {
  std::vector<int> tokens;
  std::string text;
  bool ended = false;  // false: `patience` ran out
};

// Writes at random; from half of `patience` on, of a few tokens the one that looks most like an end.
inline Walk walk(Matcher matcher, uint64_t seed, int patience = 400) {
  const Constraint& constraint = matcher.constraint();
  Walk walk;
  uint64_t drawn = 0;
  while (int(walk.tokens.size()) < patience) {
    if (matcher.must_end()) {
      walk.ended = true;
      break;
    }
    const bool hurry = int(walk.tokens.size()) * 2 > patience;
    if (matcher.may_end() && (hurry || random_bits(seed, drawn++) % 8 == 0)) {
      walk.ended = true;
      break;
    }
    const Allowed allowed(matcher.mask());
    ROSE_CHECK(allowed.size() > 0, "no token is possible after %s", walk.text.c_str());
    int token = allowed[random_bits(seed, drawn++) % allowed.size()];
    for (int tries = 0; hurry && tries < 400; ++tries) {
      const int other = allowed[random_bits(seed, drawn++) % allowed.size()];
      const std::string_view bytes = constraint.trie().bytes(other);
      if (bytes.empty() || bytes == "}" || bytes == "]" || bytes == "\"" || bytes == "\"}") {
        token = other;
        break;
      }
    }
    ROSE_CHECK(matcher.accept(token), "token %d, which the mask allows, is refused", token);
    walk.tokens.push_back(token);
    walk.text += constraint.trie().bytes(token);
  }
  return walk;
}

}  // namespace rose::grammar::testing
