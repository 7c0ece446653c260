#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/share.h"
#include "kernels/route/route.h"
#include "tensor/bf16.h"

namespace rose::cpu {

namespace {

// The top_k largest, the lower index first where equal, and their softmax.
void choose(std::vector<float>& logits, int top_k, bool round, int32_t* experts, float* weights) {
  double total = 0;
  float most = 0;
  for (int i = 0; i < top_k; ++i) {
    size_t best = 0;
    bool found = false;
    for (size_t e = 0; e < logits.size(); ++e) {
      if (std::find(experts, experts + i, int32_t(e)) != experts + i) continue;
      if (!found || logits[e] > logits[best]) best = e;
      found = true;
    }
    experts[i] = int32_t(best);
    if (i == 0) most = logits[best];
    weights[i] = std::exp(logits[best] - most);
    total += double(weights[i]);
  }
  for (int i = 0; i < top_k; ++i) {
    weights[i] = float(double(weights[i]) / total);
    if (round) weights[i] = to_f32(to_bf16(weights[i]));
  }
}

}  // namespace

void route(const Kernels& kernels, Stream& stream, const Route& op) {
  if (op.gain) {
    rms_norm(kernels, stream, norm_of(op));
    return route(kernels, stream, routing_of(op));
  }
  Dim tokens("tokens"), hidden("hidden"), experts("experts"), top_k("top_k");
  shape_check("route", op.x, "x", {&tokens, &hidden});
  shape_check("route", op.weight, "weight", {&experts, &hidden});
  shape_check("route", op.bias, "bias", {&experts});
  shape_check("route", op.experts, "experts", {&tokens, &top_k});
  shape_check("route", op.weights, "weights", {&tokens, &top_k});
  ROSE_CHECK(top_k <= experts, "route: %ld of %ld experts", long(top_k), long(experts));
  activation_check("route", op.x, "x");
  const bool round = op.x.dtype == DType::bf16;
  const auto* weight = reinterpret_cast<const uint16_t*>(op.weight.as<bf16>());

  share(stream, tokens, 1, double(hidden * experts) * 0.1, [&](int64_t begin, int64_t end, int) {
    std::vector<float> wide(static_cast<size_t>(hidden.size));
    std::vector<float> logits(static_cast<size_t>(experts.size));
    for (int64_t token = begin; token < end; ++token) {
      const Row row = row_of(op.x, token);
      if (row.is_bf16) kernels.convert(row, int(hidden), {wide.data(), false});
      kernels.route(row.is_bf16 ? wide.data() : static_cast<const float*>(row.data), weight,
                    op.bias.as<float>(), int(experts), int(hidden), logits.data());
      if (round)
        for (float& logit : logits) logit = to_f32(to_bf16(logit));
      choose(logits, int(top_k), round, op.experts.as<int32_t>() + token * top_k,
             op.weights.as<float>() + token * top_k);
    }
  });
}

}  // namespace rose::cpu
