// A grammar over the tokens of a vocabulary: which token may come next, as a bit mask for the
// sampler. A Constraint is what all sequences under one grammar share; a Matcher is where one of them
// is in it, cheap to copy.
//
// A mask that was asked for before is one look into a table. A new one is a walk over the vocabulary,
// a few milliseconds at 200,000 tokens; what it and all states together may cost is bounded, however
// the grammar was made up.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "text/grammar/automaton.h"
#include "text/grammar/token_trie.h"

namespace rose::grammar {

using Mask = std::shared_ptr<const std::vector<uint32_t>>;  // bit token % 32 of word token / 32

// What a constraint may cost.
struct Limits {
  size_t states = 100'000;
  size_t masks = 1'000;  // 25 MB at 200,000 tokens
  // Places that one mask may look at, and all masks between two droppings of states. Grammars that
  // are not meant to hurt stay a thousand times below.
  size_t mask_work = 1'000'000;
  size_t total_work = 50'000'000;
};

// May be used from several threads.
class Constraint {
 public:
  static Result<std::shared_ptr<Constraint>> make(const Grammar& grammar, Rule root,
                                                  std::shared_ptr<const TokenTrie> trie,
                                                  const Limits& limits = {});

  Constraint(Program program, std::shared_ptr<const TokenTrie> trie, const Limits& limits);

  const TokenTrie& trie() const { return *trie_; }

 private:
  friend class Matcher;
  // States are dropped when there are too many. A Matcher that finds its state gone goes again over
  // what it has read.
  struct At {
    uint64_t generation = 0;
    int state = Automaton::kDead;
  };
  int find(At& at, const std::vector<int>& read);
  int after(int state, int token);
  void make_room();
  Mask find_mask(int state);
  bool walk(int state, size_t work_limit, std::vector<uint32_t>& bits);
  void single_bytes(int state, std::vector<uint32_t>& bits);

  const Program program_;
  const std::shared_ptr<const TokenTrie> trie_;
  const Limits limits_;

  std::mutex mutex_;  // protects what follows
  std::unique_ptr<Automaton> automaton_;
  uint64_t generation_ = 1;
  std::unordered_map<int, Mask> masks_;  // by state
};

// Not for several threads at once.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Constraint> constraint) : constraint_(std::move(constraint)) {}

  Mask mask();
  // False, and nothing has changed, if the mask does not allow it.
  bool accept(int token);
  bool may_end();   // what was read is complete
  bool must_end();  // and nothing can follow
  const Constraint& constraint() const { return *constraint_; }

 private:
  std::shared_ptr<Constraint> constraint_;
  Constraint::At at_;
  std::vector<int> read_;
};

}  // namespace rose::grammar
