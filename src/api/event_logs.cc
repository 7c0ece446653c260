#include "api/event_logs.h"

namespace rose {

void EventLogs::begin(const std::string& id) {
  const std::lock_guard lock(mutex_);
  logs_[id];
}

void EventLogs::append(const std::string& id, const std::string& event) {
  const std::lock_guard lock(mutex_);
  const auto found = logs_.find(id);
  if (found == logs_.end()) return;
  Log& log = found->second;
  log.events.push_back(event);
  log.bytes += int64_t(event.size());
  bytes_ += int64_t(event.size());
  for (const auto& [name, reader] : log.readers) reader(event, false);
  make_room(log);
}

// What has ended goes first; then the log that grows loses its own beginning.
void EventLogs::make_room(Log& growing) {
  while (bytes_ > most_bytes_ && !ended_.empty()) {
    forget(logs_.find(ended_.front()));
    ended_.pop_front();
  }
  while (bytes_ > most_bytes_ && !growing.events.empty()) {
    const auto size = int64_t(growing.events.front().size());
    growing.events.pop_front();
    ++growing.first;
    growing.bytes -= size;
    bytes_ -= size;
  }
}

void EventLogs::end(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = logs_.find(id);
  if (found == logs_.end() || found->second.ended) return;
  found->second.ended = true;
  ended_.push_back(id);
  for (const auto& [name, reader] : found->second.readers) reader("", true);
  found->second.readers.clear();
}

void EventLogs::forget(std::map<std::string, Log>::iterator log) {
  for (const auto& [name, reader] : log->second.readers) reader("", true);
  bytes_ -= log->second.bytes;
  logs_.erase(log);
}

void EventLogs::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = logs_.find(id);
  if (found == logs_.end()) return;
  if (found->second.ended) ended_.remove(id);
  forget(found);
}

bool EventLogs::follow(const std::string& id, int64_t after, uint64_t name, Reader reader) {
  const std::lock_guard lock(mutex_);
  const auto found = logs_.find(id);
  if (found == logs_.end() || after < found->second.first) return false;
  Log& log = found->second;
  std::string missed;
  for (size_t i = size_t(after - log.first); i < log.events.size(); ++i) missed += log.events[i];
  reader(missed, log.ended);
  if (!log.ended) log.readers.emplace(name, std::move(reader));
  return true;
}

void EventLogs::leave(const std::string& id, uint64_t name) {
  const std::lock_guard lock(mutex_);
  if (const auto found = logs_.find(id); found != logs_.end()) found->second.readers.erase(name);
}

uint64_t EventLogs::new_name() {
  const std::lock_guard lock(mutex_);
  return ++last_name_;
}

}  // namespace rose
