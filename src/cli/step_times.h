// Times single steps of a model, launched as the engine does: the tokens fed, the forward pass, the sampled
// ids read back; on a device that works on its own, the next step before this one has landed.
#pragma once
#include <vector>

#include "cli/session.h"
#include "kernels/cost.h"

namespace rose {

struct StepTimes {
  std::vector<double> seconds;         // of each repeat
  std::vector<double> device_seconds;  // of its kernels, by the device's clock; 0 on the host
  Cost cost;                           // of one

  double median_s() const;
  double median_device_s() const;
  double spread() const;  // (slowest - fastest) / median
};

// One prompt from an empty cache, in chunks of at most `chunk` tokens.
Result<StepTimes> time_prefill(Runtime& runtime, int tokens, int chunk, int warmup, int repeats);

// One token for each of `batch` sequences that have `context` tokens in the cache, the new one included, from
// landing to landing of steps that follow each other. Each repeat feeds other tokens, so that they meet other
// experts.
Result<StepTimes> time_decode(Runtime& runtime, int batch, int context, int warmup, int repeats);

// Bytes per second of reading more memory than any cache holds, by as many threads as the option says.
double measure_read_bandwidth(int thread_count);

}  // namespace rose
