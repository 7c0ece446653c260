// Seconds of a clock that never goes back, from a start of its own: for differences.
#pragma once
#include <chrono>

namespace rose {

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace rose
