// Generations that go on without their client, by name, so that they can be stopped.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "api/errors.h"

namespace rose {

class BackgroundWork {
 public:
  using Stop = std::function<void(const ApiError& why)>;

  // After stop_all() what is added is stopped at once.
  void add(const std::string& id, Stop stop) {
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_) {
        work_[id] = std::move(stop);
        return;
      }
    }
    stop(*stopped_);
  }
  void remove(const std::string& id) {
    const std::lock_guard lock(mutex_);
    work_.erase(id);
  }
  // False: it has ended, or never was.
  bool stop(const std::string& id, const ApiError& why) {
    Stop stop;
    {
      const std::lock_guard lock(mutex_);
      const auto found = work_.find(id);
      if (found == work_.end()) return false;
      stop = std::move(found->second);
      work_.erase(found);
    }
    stop(why);
    return true;
  }
  void stop_all(const ApiError& why) {
    std::map<std::string, Stop> work;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = why;
      work.swap(work_);
    }
    for (const auto& [id, stop] : work) stop(why);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Stop> work_;
  std::optional<ApiError> stopped_;
};

}  // namespace rose
