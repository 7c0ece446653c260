// The push-down machine, made deterministic as far as it is walked: a state is the set of all places
// (step, stack of callers) where the machine can be after the same text, found once and then known by
// a number; going on by a byte is one look into a table. States are those of one grammar, shared by
// all that walk it. Not for several threads at once.
//
// No state is a dead end: a place from which the machine could not come to its end within kMaxDepth
// calls is left out from the start.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/grammar/program.h"

namespace rose::grammar {

class Automaton {
 public:
  static constexpr int kDead = 0;

  // `horizon`: see distant().
  Automaton(Program program, int horizon);

  int start() const { return start_; }
  int next(int state, int symbol_class) {
    const int known = next_[size_t(state) * size_t(classes_) + size_t(symbol_class)];
    return known >= 0 ? known : find_next(state, symbol_class);
  }
  bool may_end(int state) const { return states_[size_t(state)].may_end; }
  bool must_end(int state) const { return states_[size_t(state)].places.empty(); }

  // The state that is like this one for the next `horizon` bytes: what is counted (characters left
  // to maxLength) and farther off than those is all alike. Whoever asks only what may come next asks
  // for this one, and seldom anew.
  int distant(int state);

  const Program& program() const { return program_; }
  size_t states() const { return states_.size(); }
  size_t work() const { return work_; }  // places looked at so far: what everything cost

 private:
  struct Frame {  // a caller that waits
    int below, step;
    int need, room;  // of a loop: how many more it must and may do; room kNoLimit: any
    bool operator==(const Frame&) const = default;
  };
  struct FrameHash {
    size_t operator()(const Frame& frame) const;
  };
  struct Place {
    int step, stack;
    bool operator==(const Place&) const = default;
  };
  struct State {
    std::vector<Place> places;  // all before a `read`
    bool may_end = false;
    int distant = -1;
  };

  int find_next(int state, int symbol_class);
  void visit(int step, int stack);
  void expand(Place place);
  void finish_call(int stack);
  void enter_loop(int step, int stack, int need, int room);
  int settle();
  int push(const Frame& frame);
  int distant_stack(int stack);
  int height(int step) const { return program_.steps[size_t(step)].height; }
  int depth(int stack) const { return depths_[size_t(stack)]; }

  Program program_;
  int classes_;
  int horizon_;
  int start_ = 0;

  std::vector<State> states_;
  std::vector<int32_t> next_;  // [states, classes]; -1: not known yet
  std::unordered_multimap<size_t, int> state_ids_;

  std::vector<Frame> frames_;  // a stack is the number of its top; 0 is the empty one
  std::vector<int> depths_, distant_stacks_;
  std::unordered_map<Frame, int, FrameHash> frame_ids_;

  // Of the state that is being found.
  std::vector<Place> to_do_, found_;
  std::unordered_set<uint64_t> seen_;
  bool may_end_ = false;
  size_t work_ = 0;
};

}  // namespace rose::grammar
