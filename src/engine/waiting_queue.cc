#include "engine/waiting_queue.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace rose {

void WaitingQueue::push(std::unique_ptr<Sequence> sequence) {
  const double floor = least_served();
  Tenant& tenant = tenants_[sequence->tenant];
  if (tenant.waiting++ == 0) tenant.served = std::max(tenant.served, floor);
  Line& line = lines_[sequence->priority][sequence->tenant];
  const auto later = [](const auto& a, const auto& b) { return a->arrival < b->arrival; };
  const auto place = std::upper_bound(line.begin(), line.end(), sequence, later);
  line.insert(place, std::move(sequence));
  ++size_;
}

// Of those that wait; if nobody does, of whoever left last.
double WaitingQueue::least_served() const {
  double least = -1;
  for (const auto& [id, tenant] : tenants_)
    if (tenant.waiting > 0 && (least < 0 || tenant.served < least)) least = tenant.served;
  if (least >= 0) return least;
  const auto last = tenants_.find(last_left_);
  return last == tenants_.end() ? 0 : last->second.served;
}

WaitingQueue::Line& WaitingQueue::next_line() const {
  ROSE_CHECK(size_ > 0, "waiting queue: the next of none");
  Line* next = nullptr;
  std::tuple<bool, double, uint64_t> best;
  for (auto& [id, line] : lines_.begin()->second) {
    const Sequence& first = *line.front();
    const std::tuple order(!first.admitted, tenants_.at(id).served, first.arrival);
    if (!next || order < best) std::tie(next, best) = std::tuple(&line, order);
  }
  return *next;
}

Sequence& WaitingQueue::front() const { return *next_line().front(); }

std::unique_ptr<Sequence> WaitingQueue::pop() {
  Line& line = next_line();
  std::unique_ptr<Sequence> sequence = std::move(line.front());
  line.pop_front();
  left(*sequence);
  drop_empty_lines();
  return sequence;
}

// Accounts for one that has been taken out of its line.
void WaitingQueue::left(const Sequence& sequence) {
  --size_;
  --tenants_.at(sequence.tenant).waiting;
  last_left_ = sequence.tenant;
}

void WaitingQueue::drop_empty_lines() {
  for (auto& [priority, level] : lines_)
    std::erase_if(level, [](const auto& line) { return line.second.empty(); });
  std::erase_if(lines_, [](const auto& level) { return level.second.empty(); });
}

void WaitingQueue::charge(const Sequence& sequence, int prompt_tokens, int drawn_tokens) {
  tenants_[sequence.tenant].served += (prompt_tokens + 2.0 * drawn_tokens) / sequence.share;
}

void WaitingQueue::each(const std::function<void(Sequence&)>& visit) const {
  for (auto& [priority, level] : lines_)
    for (auto& [tenant, line] : level)
      for (auto& sequence : line) visit(*sequence);
}

std::vector<std::unique_ptr<Sequence>> WaitingQueue::take_ended() {
  std::vector<std::unique_ptr<Sequence>> ended;
  for (auto& [priority, level] : lines_)
    for (auto& [tenant, line] : level)
      for (auto& sequence : line)
        if (sequence->finish != Finish::none) ended.push_back(std::move(sequence));
  if (ended.empty()) return ended;
  for (auto& [priority, level] : lines_)
    for (auto& [tenant, line] : level) std::erase(line, nullptr);
  for (const auto& sequence : ended) left(*sequence);
  drop_empty_lines();
  return ended;
}

}  // namespace rose
