#include "api/ids.h"

#include <atomic>
#include <random>

#include "base/rng.h"

namespace rose {

std::string new_id(std::string_view prefix, int digits) {
  // One key a process from the system's own source, then a counter: unique here, unpredictable enough
  // that two processes do not meet.
  static const uint64_t key = (uint64_t(std::random_device()()) << 32) | std::random_device()();
  static std::atomic<uint64_t> counter = 0;
  std::string id(prefix);
  uint64_t bits = 0;
  for (int digit = 0; digit < digits; ++digit) {
    if (digit % 16 == 0) bits = random_bits(key, counter.fetch_add(1, std::memory_order_relaxed));
    id += "0123456789abcdef"[bits & 15];
    bits >>= 4;
  }
  return id;
}

}  // namespace rose
