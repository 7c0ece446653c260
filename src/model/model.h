// A model is its weights and its forward pass. A family is one file and one row of the registry.
#pragma once
#include <memory>
#include <vector>

#include "base/result.h"
#include "cache/kv_cache.h"
#include "layers/pass.h"
#include "model/config.h"
#include "model/weights.h"

namespace rose {

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  virtual KvSpec kv_spec(DType dtype) const = 0;
  // Rows point into this model; the loader fills them.
  virtual std::vector<WeightRow> weights() = 0;
  // Called once after the weights are in place: tables that follow from the config (rotation).
  virtual Status prepare(Stream& stream) = 0;
  // The logits of the sampled rows: [samples, vocab]  f32.
  virtual Tensor forward(Pass& pass) const = 0;
};

// The family that the config's architecture names; the error lists those of this build.
Result<std::unique_ptr<Model>> make_model(const ModelConfig& config);

}  // namespace rose
