// The events of responses that go on without their client, kept so that it can come back to them: those
// that it missed, then those to come. In memory, for as long as there is room.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>

namespace rose {

class EventLogs {
 public:
  // Gets whole events as they are sent; `last`: nothing more comes. Called under our lock: only post.
  using Reader = std::function<void(const std::string& events, bool last)>;

  explicit EventLogs(int64_t most_bytes = 64 << 20) : most_bytes_(most_bytes) {}

  void begin(const std::string& id);
  // Its number is the count of those before it. Nothing where the log is unknown.
  void append(const std::string& id, const std::string& event);
  void end(const std::string& id);
  void remove(const std::string& id);

  // Reads what comes after that many events. False: the log is unknown, or its first events are no
  // longer there. `name`: so that the reader can leave.
  bool follow(const std::string& id, int64_t after, uint64_t name, Reader reader);
  void leave(const std::string& id, uint64_t name);
  uint64_t new_name();

 private:
  struct Log {
    std::deque<std::string> events;
    int64_t first = 0;  // the number of events.front()
    int64_t bytes = 0;
    bool ended = false;
    std::map<uint64_t, Reader> readers;
  };
  void forget(std::map<std::string, Log>::iterator log);
  void make_room(Log& growing);

  const int64_t most_bytes_;
  std::mutex mutex_;  // protects what follows
  std::map<std::string, Log> logs_;
  std::list<std::string> ended_;  // oldest first
  int64_t bytes_ = 0;             // of all events
  uint64_t last_name_ = 0;
};

}  // namespace rose
