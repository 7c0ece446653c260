#include "text/grammar/automaton.h"

#include <algorithm>

#include "base/check.h"
#include "base/rng.h"

namespace rose::grammar {

namespace {

using Op = Program::Op;

// Of one state. What goes past it is left out: less is then allowed, nothing wrong is.
constexpr size_t kMaxPlaces = 4096;

}  // namespace

size_t Automaton::FrameHash::operator()(const Frame& frame) const {
  const uint64_t low = uint64_t(uint32_t(frame.below)) << 32 | uint32_t(frame.step);
  const uint64_t high = uint64_t(uint32_t(frame.need)) << 32 | uint32_t(frame.room);
  return size_t(scatter(low ^ scatter(high)));
}

Automaton::Automaton(Program program, int horizon)
    : program_(std::move(program)), classes_(program_.classes), horizon_(horizon) {
  frames_.push_back({});
  depths_.push_back(0);
  distant_stacks_.push_back(0);
  ROSE_CHECK(settle() == kDead, "automaton: the dead state is not the first");
  visit(program_.start, 0);
  start_ = settle();
}

int Automaton::push(const Frame& frame) {
  const auto [known, added] = frame_ids_.try_emplace(frame, int(frames_.size()));
  if (added) {
    frames_.push_back(frame);
    depths_.push_back(depth(frame.below) + 1);
    distant_stacks_.push_back(-1);
  }
  return known->second;
}

void Automaton::visit(int step, int stack) {
  if (depth(stack) + height(step) > kMaxDepth || seen_.size() >= kMaxPlaces) return;
  ++work_;
  if (seen_.insert(uint64_t(uint32_t(step)) << 32 | uint32_t(stack)).second)
    to_do_.push_back({step, stack});
}

void Automaton::finish_call(int stack) {
  if (stack == 0) {
    may_end_ = true;
    return;
  }
  const Frame frame = frames_[size_t(stack)];
  if (program_.steps[size_t(frame.step)].op == Op::loop)
    enter_loop(frame.step, frame.below, frame.need, frame.room);
  else
    visit(program_.steps[size_t(frame.step)].next, frame.below);
}

void Automaton::enter_loop(int step, int stack, int need, int room) {
  const Program::Step& loop = program_.steps[size_t(step)];
  if (depth(stack) + height(loop.next) > kMaxDepth) return;
  if (need == 0) visit(loop.next, stack);
  if (room == 0 || depth(stack) + 1 + height(loop.body) > kMaxDepth) return;
  visit(loop.body, push({.below = stack,
                         .step = step,
                         .need = std::max(need - 1, 0),
                         .room = room == kNoLimit ? kNoLimit : room - 1}));
}

void Automaton::expand(Place place) {
  const Program::Step& step = program_.steps[size_t(place.step)];
  switch (step.op) {
    case Op::end: finish_call(place.stack); break;
    case Op::read: found_.push_back(place); break;
    case Op::split:
      for (int i = step.low; i < step.high; ++i) visit(program_.targets[size_t(i)], place.stack);
      break;
    case Op::call:
      if (step.next == 0) {  // nothing to come back for
        visit(step.body, place.stack);
      } else if (depth(place.stack) + height(step.next) <= kMaxDepth &&
                 depth(place.stack) + 1 + height(step.body) <= kMaxDepth) {
        visit(step.body, push({.below = place.stack, .step = place.step, .need = 0, .room = 0}));
      }
      break;
    case Op::loop: enter_loop(place.step, place.stack, step.low, step.high); break;
  }
}

// The number of the state that the places to visit make.
int Automaton::settle() {
  while (!to_do_.empty()) {
    const Place place = to_do_.back();
    to_do_.pop_back();
    expand(place);
  }
  std::sort(found_.begin(), found_.end(), [](const Place& a, const Place& b) {
    return a.step != b.step ? a.step < b.step : a.stack < b.stack;
  });
  uint64_t hash = may_end_;
  for (const Place& place : found_)
    hash = scatter(hash ^ (uint64_t(uint32_t(place.step)) << 32 | uint32_t(place.stack)));

  int id = -1;
  const auto [from, to] = state_ids_.equal_range(size_t(hash));
  for (auto known = from; known != to; ++known) {
    const State& state = states_[size_t(known->second)];
    if (state.may_end == may_end_ && state.places == found_) id = known->second;
  }
  if (id < 0) {
    id = int(states_.size());
    states_.push_back({.places = found_, .may_end = may_end_});
    next_.resize(next_.size() + size_t(classes_), -1);
    state_ids_.emplace(size_t(hash), id);
  }
  found_.clear();
  seen_.clear();
  may_end_ = false;
  return id;
}

int Automaton::find_next(int state, int symbol_class) {
  // By index: visiting may not move the places, but settling adds states.
  for (const Place& place : states_[size_t(state)].places) {
    const Program::Step& step = program_.steps[size_t(place.step)];
    ++work_;
    if (program_.reads(step.low, symbol_class)) visit(step.next, place.stack);
  }
  const int found = settle();
  next_[size_t(state) * size_t(classes_) + size_t(symbol_class)] = found;
  return found;
}

// A byte ends one round of a loop at most, so that horizon + 1 rounds are as good as more.
int Automaton::distant_stack(int stack) {
  std::vector<int> way;
  for (; distant_stacks_[size_t(stack)] < 0; stack = frames_[size_t(stack)].below)
    way.push_back(stack);
  int below = distant_stacks_[size_t(stack)];
  for (auto at = way.rbegin(); at != way.rend(); ++at) {
    Frame frame = frames_[size_t(*at)];
    frame.below = below;
    frame.need = std::min(frame.need, horizon_ + 1);
    if (frame.room != kNoLimit) frame.room = std::min(frame.room, horizon_ + 1);
    below = push(frame);
    distant_stacks_[size_t(*at)] = below;
  }
  return below;
}

int Automaton::distant(int state) {
  if (states_[size_t(state)].distant >= 0) return states_[size_t(state)].distant;
  for (const Place& place : states_[size_t(state)].places)
    found_.push_back({place.step, distant_stack(place.stack)});
  // Two places may have become one.
  std::sort(found_.begin(), found_.end(), [](const Place& a, const Place& b) {
    return a.step != b.step ? a.step < b.step : a.stack < b.stack;
  });
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  may_end_ = states_[size_t(state)].may_end;
  const int found = settle();
  states_[size_t(state)].distant = found;
  return found;
}

}  // namespace rose::grammar
