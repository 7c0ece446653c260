// The sequences that wait, and who of them is next: the smaller priority; then those that ran before and
// gave way; then the tenant that was served least for its share; then arrival.
//
// Service is counted in tokens, as they are computed: one of a prompt is 1, one that is drawn is 2, both
// divided by the tenant's share. A tenant that comes back from a pause is lifted to the least served of
// those that wait (or, if nobody does, to whoever left last), so that idleness earns no credit. Of two
// tenants that always wait, neither gets ahead of the other by more than one request's tokens.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "engine/sequence.h"

namespace rose {

class WaitingQueue {
 public:
  void push(std::unique_ptr<Sequence> sequence);
  bool empty() const { return size_ == 0; }
  Sequence& front() const;          // the next
  std::unique_ptr<Sequence> pop();  // takes it

  // Tokens of a tenant that were computed.
  void charge(const Sequence& sequence, int prompt_tokens, int drawn_tokens);

  void each(const std::function<void(Sequence&)>& visit) const;
  // Takes out those that have ended.
  std::vector<std::unique_ptr<Sequence>> take_ended();

 private:
  using Line = std::deque<std::unique_ptr<Sequence>>;  // of one tenant, by arrival
  struct Tenant {
    double served = 0;
    int waiting = 0;
  };

  Line& next_line() const;
  double least_served() const;
  void left(const Sequence& sequence);
  void drop_empty_lines();

  // Mutable: front() is a look, and gives what pop() will take.
  mutable std::map<int, std::map<uint64_t, Line>> lines_;  // by priority, by tenant; none is empty
  std::map<uint64_t, Tenant> tenants_;
  uint64_t last_left_ = 0;
  int size_ = 0;
};

}  // namespace rose
