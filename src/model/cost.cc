#include "model/cost.h"

#include <algorithm>
#include <cmath>

namespace rose {

Cost step_cost(const ModelConfig& config, const Recipe& recipe, const Ops& ops,
               const StepShape& shape) {
  const int64_t queries = int64_t(config.heads) * config.head_dim;
  const int64_t keys = int64_t(config.kv_heads) * config.head_dim;
  const int64_t attention_weights = (queries + 2 * keys) * config.hidden + queries * config.hidden;
  const int64_t expert_weights = int64_t(3) * config.ffn * config.hidden;

  const int64_t attention_bytes =
      ops.weight_bytes(recipe.attention, 1, int(queries + 2 * keys), config.hidden) +
      ops.weight_bytes(recipe.attention, 1, config.hidden, int(queries));
  const int64_t expert_bytes = ops.weight_bytes(recipe.expert, 1, 2 * config.ffn, config.hidden) +
                               ops.weight_bytes(recipe.expert, 1, config.hidden, config.ffn);
  // Each token picks top_k of the experts; a given one is missed by all with (1 - k/E)^tokens.
  const double missed = std::pow(1 - double(config.top_k) / config.experts, double(shape.tokens));
  const double experts_read = config.experts * (1 - missed);
  const int64_t router_bytes = int64_t(config.experts) * config.hidden * 2;

  double bytes = 0, flops = 0;
  for (int layer = 0; layer < config.layers; ++layer) {
    const bool sliding = config.sliding_layer[size_t(layer)];
    const int64_t context =
        sliding ? std::min<int64_t>(shape.context, config.window) : shape.context;
    bytes += double(attention_bytes + router_bytes) + experts_read * double(expert_bytes) +
             double(shape.seqs * context * 2 * keys * bytes_of(recipe.kv));
    flops += 2.0 * double(shape.tokens) *
             (double(attention_weights) + config.top_k * double(expert_weights) +
              2.0 * double(context) * double(queries));
  }
  if (shape.sampled > 0)
    bytes += double(ops.weight_bytes(recipe.unembedding, 1, config.vocab, config.hidden));
  flops += 2.0 * double(shape.sampled) * config.vocab * config.hidden;
  return {.bytes = int64_t(bytes), .flops = int64_t(flops)};
}

}  // namespace rose
