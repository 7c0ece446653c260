// Sharing an op's work among the threads of its stream.
#pragma once
#include <algorithm>
#include <atomic>

#include "device/arena.h"
#include "device/device.h"

namespace rose::cpu {

// Less than this is done by the calling thread alone: about what a fork and join cost.
inline constexpr double kWorthForking_ns = 3000;

// Calls body(begin, end, thread) until [0, units) is done. A thread takes the next part when it has
// finished one, half of its fair share of what is left, so that one slowed down by others' work holds
// nobody up. Parts begin at multiples of `grain`. `unit_ns`: roughly what a unit takes.
template <class Body>
void share(Stream& stream, int64_t units, int64_t grain, double unit_ns, const Body& body) {
  const int threads = stream.threads->threads();
  if (units <= grain || threads == 1 || double(units) * unit_ns < kWorthForking_ns) {
    if (units > 0) body(int64_t(0), units, 0);
    return;
  }
  std::atomic<int64_t> next = 0;
  stream.threads->run([&](int thread) {
    int64_t begin = next.load(std::memory_order_relaxed);
    while (begin < units) {
      const int64_t fair = (units - begin) / (2 * threads) / grain * grain;
      const int64_t end = std::min(units, begin + std::max(fair, grain));
      if (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      body(begin, end, thread);
      begin = next.load(std::memory_order_relaxed);
    }
  });
}

// Scratch memory for each thread, one after another.
template <class T>
T* take_each(Stream& stream, DType dtype, int64_t elements) {
  return stream.scratch->take(dtype, {stream.threads->threads(), elements}).template as<T>();
}

}  // namespace rose::cpu
