// The clock that never goes back: moments to wait for, and how long things took.
#pragma once
#include <chrono>

namespace rose {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

inline double seconds_between(Time from, Time to) {
  return std::chrono::duration<double>(to - from).count();
}

inline double seconds_since(Time start) { return seconds_between(start, Clock::now()); }

}  // namespace rose
