// The least bytes and operations of one step of a model: what benchmarks and plans compare with the
// machine's ceiling.
#pragma once
#include "kernels/cost.h"
#include "kernels/ops.h"
#include "model/config.h"
#include "model/recipe.h"

namespace rose {

struct StepShape {
  int64_t tokens = 0;   // fed by all sequences together
  int64_t sampled = 0;  // rows whose logits are wanted
  int64_t context = 0;  // keys that each token attends to in a full layer, on average
  int64_t seqs = 1;     // whose keys and values are read
};

// Weights once each (of the experts: as many as uniform routing is expected to touch), keys and values once
// for each sequence; two operations for each weight and token.
Cost step_cost(const ModelConfig& config, const Recipe& recipe, const Ops& ops,
               const StepShape& shape);

}  // namespace rose
