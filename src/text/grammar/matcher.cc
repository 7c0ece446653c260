#include "text/grammar/matcher.h"

#include <algorithm>

#include "base/check.h"

namespace rose::grammar {

Result<std::shared_ptr<Constraint>> Constraint::make(const Grammar& grammar, Rule root,
                                                     std::shared_ptr<const TokenTrie> trie,
                                                     const Limits& limits) {
  return std::make_shared<Constraint>(TRY(Program::compile(grammar, root)), std::move(trie),
                                      limits);
}

Constraint::Constraint(Program program, std::shared_ptr<const TokenTrie> trie, const Limits& limits)
    : program_(std::move(program)),
      trie_(std::move(trie)),
      limits_(limits),
      automaton_(std::make_unique<Automaton>(program_, trie_->longest())) {}

void Constraint::make_room() {
  if (masks_.size() > limits_.masks) masks_.clear();
  if (automaton_->states() <= limits_.states) return;
  masks_.clear();
  automaton_ = std::make_unique<Automaton>(program_, trie_->longest());
  ++generation_;
}

int Constraint::after(int state, int token) {
  const std::string_view bytes = trie_->bytes(token);
  for (const char byte : bytes) {
    if (state == Automaton::kDead) break;
    state = automaton_->next(state, program_.class_of_byte[uint8_t(byte)]);
  }
  if (!bytes.empty()) return state;
  for (const auto& [special, symbol_class] : program_.specials)
    if (special == token) return automaton_->next(state, symbol_class);
  return Automaton::kDead;
}

int Constraint::find(At& at, const std::vector<int>& read) {
  make_room();
  if (at.generation != generation_) {
    at = {generation_, automaton_->start()};
    for (const int token : read) at.state = after(at.state, token);
  }
  return at.state;
}

// False if it would cost too much.
bool Constraint::walk(int state, size_t work_limit, std::vector<uint32_t>& bits) {
  const size_t stop_at = automaton_->work() + work_limit;
  const std::vector<TokenTrie::Node>& nodes = trie_->nodes();
  int states[TokenTrie::kLongest + 1] = {state};
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node node = nodes[i];
    const int next = automaton_->next(states[node.depth - 1], program_.class_of_byte[node.byte]);
    if (next == Automaton::kDead) {
      i = node.end;
      if (automaton_->work() > stop_at) return false;
      continue;
    }
    states[node.depth] = next;
    if (node.token >= 0) bits[size_t(node.token) / 32] |= 1u << (node.token % 32);
    ++i;
    if (automaton_->work() > stop_at) return false;
  }
  return true;
}

// Every text can be written byte by byte: correct, if not what the model would like best.
void Constraint::single_bytes(int state, std::vector<uint32_t>& bits) {
  std::fill(bits.begin(), bits.end(), 0);
  const std::vector<TokenTrie::Node>& nodes = trie_->nodes();
  for (size_t i = 0; i < nodes.size(); i = nodes[i].end) {
    const TokenTrie::Node& node = nodes[i];
    if (node.token >= 0 &&
        automaton_->next(state, program_.class_of_byte[node.byte]) != Automaton::kDead)
      bits[size_t(node.token) / 32] |= 1u << (node.token % 32);
  }
}

Mask Constraint::find_mask(int state) {
  state = automaton_->distant(state);
  Mask& mask = masks_[state];
  if (mask) return mask;
  std::vector<uint32_t> bits(trie_->words(), 0);
  const size_t spent = automaton_->work();
  const size_t left = spent < limits_.total_work ? limits_.total_work - spent : 0;
  if (!walk(state, std::min(limits_.mask_work, left), bits)) single_bytes(state, bits);
  for (const auto& [token, symbol_class] : program_.specials)
    if (automaton_->next(state, symbol_class) != Automaton::kDead)
      bits[size_t(token) / 32] |= 1u << (token % 32);
  mask = std::make_shared<const std::vector<uint32_t>>(std::move(bits));
  return mask;
}

Mask Matcher::mask() {
  const std::lock_guard lock(constraint_->mutex_);
  return constraint_->find_mask(constraint_->find(at_, read_));
}

bool Matcher::accept(int token) {
  const std::lock_guard lock(constraint_->mutex_);
  const int next = constraint_->after(constraint_->find(at_, read_), token);
  if (next == Automaton::kDead) return false;
  at_.state = next;
  read_.push_back(token);
  return true;
}

bool Matcher::may_end() {
  const std::lock_guard lock(constraint_->mutex_);
  const int state = constraint_->find(at_, read_);  // may make a new automaton
  return constraint_->automaton_->may_end(state);
}

bool Matcher::must_end() {
  const std::lock_guard lock(constraint_->mutex_);
  const int state = constraint_->find(at_, read_);
  return constraint_->automaton_->must_end(state);
}

}  // namespace rose::grammar
