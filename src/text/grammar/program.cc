#include "text/grammar/program.h"

#include <algorithm>
#include <deque>
#include <map>

#include "base/check.h"

namespace rose::grammar {

namespace {

using Op = Program::Op;
using Step = Program::Step;

// Steps are made from the end: what follows exists before what leads to it.
class Compiler {
 public:
  Compiler(const Grammar& grammar, Program& program) : grammar_(grammar), program_(program) {
    byte_ids_.fill(-1);
  }

  void run(Rule root) {
    add({.op = Op::end, .height = 0});
    std::vector<int> starts(size_t(grammar_.rules()), 0);
    for (Rule rule = 0; rule < grammar_.rules(); ++rule) {
      ROSE_CHECK(grammar_.definition(rule) >= 0, "grammar: rule %d is never defined", rule);
      starts[size_t(rule)] = expr(grammar_.definition(rule), 0);
    }
    for (Step& step : program_.steps)
      if (step.op == Op::call) step.body = starts[size_t(step.low)];
    program_.start = starts[size_t(root)];
    classes();
    heights();
  }

 private:
  int add(const Step& step) {
    program_.steps.push_back(step);
    return int(program_.steps.size()) - 1;
  }

  int split(const std::vector<int>& targets) {
    std::vector<int>& all = program_.targets;
    const int low = int(all.size());
    all.insert(all.end(), targets.begin(), targets.end());
    return add({.op = Op::split, .low = low, .high = int(all.size())});
  }

  int read(const ByteSet& set, int next) {
    const auto [known, added] = set_ids_.try_emplace(set.to_string(), int(sets_.size()));
    if (added) sets_.push_back(set);
    return add({.op = Op::read, .next = next, .low = known->second});
  }

  int read_byte(uint8_t byte, int next) {
    int& set = byte_ids_[byte];
    if (set < 0)
      set = program_.steps[size_t(read(ByteSet().set(byte), next))].low;
    else
      add({.op = Op::read, .next = next, .low = set});
    return int(program_.steps.size()) - 1;
  }

  int expr(Expr at, int next) {
    const Grammar::Node& node = grammar_.node(at);
    switch (node.kind) {
      case Grammar::Kind::bytes: return read(grammar_.set(node.low), next);
      case Grammar::Kind::special: {
        special_ids_.try_emplace(node.low, int(special_ids_.size()));
        // Its set is known once all byte sets are: counted from the other side until then.
        return add({.op = Op::read, .next = next, .low = ~special_ids_[node.low]});
      }
      case Grammar::Kind::literal:
        for (auto byte = node.text.rbegin(); byte != node.text.rend(); ++byte)
          next = read_byte(uint8_t(*byte), next);
        return next;
      case Grammar::Kind::sequence:
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part)
          next = expr(*part, next);
        return next;
      case Grammar::Kind::any_of: {
        std::vector<int> targets;
        for (const Expr part : node.parts) targets.push_back(expr(part, next));
        return split(targets);
      }
      case Grammar::Kind::repeat: return repeat(node, next);
      case Grammar::Kind::call: return add({.op = Op::call, .next = next, .low = node.low});
    }
    return next;
  }

  // Without counting where that is possible: counts make states.
  int repeat(const Grammar::Node& node, int next) {
    const Expr part = node.parts[0];
    if (node.high == kNoLimit && node.low <= 1) {
      const int again = split({0, next});
      const int body = expr(part, again);
      program_.targets[size_t(program_.steps[size_t(again)].low)] = body;
      return node.low == 0 ? again : body;
    }
    if (node.low == 0 && node.high == 1) return split({expr(part, next), next});
    const int body = expr(part, 0);
    return add({.op = Op::loop, .next = next, .body = body, .low = node.low, .high = node.high});
  }

  // Bytes that every set has or has not together are one class.
  void classes() {
    std::array<int16_t, 256>& of = program_.class_of_byte;
    int count = 1;
    for (const ByteSet& set : sets_) {
      std::map<std::pair<int, bool>, int16_t> parts;
      for (size_t byte = 0; byte < 256; ++byte)
        of[byte] = parts.try_emplace({of[byte], set[byte]}, int16_t(parts.size())).first->second;
      count = int(parts.size());
    }
    program_.classes = count + int(special_ids_.size());
    program_.read_table.assign((sets_.size() + special_ids_.size()) * size_t(program_.classes),
                               false);
    for (size_t set = 0; set < sets_.size(); ++set)
      for (size_t byte = 0; byte < 256; ++byte)
        if (sets_[set][byte])
          program_.read_table[set * size_t(program_.classes) + size_t(of[byte])] = true;
    for (const auto& [token, id] : special_ids_) {
      program_.specials.emplace_back(token, count + id);
      program_
          .read_table[(sets_.size() + size_t(id)) * size_t(program_.classes) + size_t(count + id)] =
          true;
    }
    for (Step& step : program_.steps)
      if (step.op == Op::read && step.low < 0) step.low = int(sets_.size()) + ~step.low;
  }

  int height(const Step& step) const {
    const auto of = [&](int at) { return program_.steps[size_t(at)].height; };
    switch (step.op) {
      case Op::end: return 0;
      case Op::read: return of(step.next);
      case Op::split: {
        int least = kMaxDepth + 1;
        for (int i = step.low; i < step.high; ++i)
          least = std::min(least, of(program_.targets[size_t(i)]));
        return least;
      }
      case Op::call:
        return step.next == 0 ? of(step.body) : std::max(1 + of(step.body), of(step.next));
      case Op::loop:
        return step.low == 0 ? of(step.next) : std::max(1 + of(step.body), of(step.next));
    }
    return 0;
  }

  template <class Visit>
  void each_successor(const Step& step, const Visit& visit) const {
    if (step.op == Op::end) return;
    if (step.op == Op::split) {
      for (int i = step.low; i < step.high; ++i) visit(program_.targets[size_t(i)]);
      return;
    }
    visit(step.next);
    if (step.op != Op::read) visit(step.body);
  }

  // From above, to the greatest that holds everywhere: a step is looked at again when one that it
  // leads to came down.
  void heights() {
    std::vector<Step>& steps = program_.steps;
    std::vector<int> first(steps.size() + 1, 0);  // of each step's predecessors
    for (const Step& step : steps) each_successor(step, [&](int to) { ++first[size_t(to) + 1]; });
    for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    std::vector<int> predecessors(size_t(first.back())), filled(first.begin(), first.end() - 1);
    for (size_t from = 0; from < steps.size(); ++from)
      each_successor(steps[from],
                     [&](int to) { predecessors[size_t(filled[size_t(to)]++)] = int(from); });

    std::deque<int> lowered = {0};
    for (; !lowered.empty(); lowered.pop_front()) {
      const size_t at = size_t(lowered.front());
      for (int i = first[at]; i < first[at + 1]; ++i) {
        Step& step = steps[size_t(predecessors[size_t(i)])];
        const int now = std::min(height(step), kMaxDepth + 1);
        if (now >= step.height) continue;
        step.height = now;
        lowered.push_back(predecessors[size_t(i)]);
      }
    }
  }

  const Grammar& grammar_;
  Program& program_;
  std::vector<ByteSet> sets_;
  std::map<std::string, int> set_ids_;
  std::array<int, 256> byte_ids_;   // of the sets of one byte; -1: not made
  std::map<int, int> special_ids_;  // by token
};

}  // namespace

Result<Program> Program::compile(const Grammar& grammar, Rule root) {
  if (grammar.too_large())
    return fail(ErrorKind::invalid,
                strf("too large: %zu parts, the limit is %zu", grammar.size(), Grammar::kMaxSize));
  Program program;
  Compiler(grammar, program).run(root);
  if (program.steps[size_t(program.start)].height > kMaxDepth)
    return fail(ErrorKind::invalid, "nothing that could be written satisfies it");
  return program;
}

}  // namespace rose::grammar
