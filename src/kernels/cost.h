// The least an op must move and compute; benchmarks print the share of the machine's ceiling reached.
#pragma once
#include <cstdint>

namespace rose {

struct Cost {
  int64_t bytes = 0;
  int64_t flops = 0;
};

}  // namespace rose
