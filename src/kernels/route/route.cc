#include "kernels/route/route.h"

#include <algorithm>
#include <cmath>

#include "kernels/ref.h"
#include "kernels/ref_math.h"

namespace rose::ref {

namespace {

// The index of the largest logit that is not among `taken`, the lowest where equal.
int next_largest(const float* logits, int count, const int32_t* taken, int taken_count) {
  int best = -1;
  for (int e = 0; e < count; ++e) {
    if (std::find(taken, taken + taken_count, e) != taken + taken_count) continue;
    if (best < 0 || logits[e] > logits[best]) best = e;
  }
  return best;
}

}  // namespace

void route(Stream& stream, const Route& op) {
  if (op.gain) {
    rms_norm(stream, norm_of(op));
    return route(stream, routing_of(op));
  }
  Dim tokens("tokens"), hidden("hidden"), experts("experts"), top_k("top_k");
  shape_check("route", op.x, "x", {&tokens, &hidden});
  shape_check("route", op.weight, "weight", {&experts, &hidden});
  shape_check("route", op.bias, "bias", {&experts});
  shape_check("route", op.experts, "experts", {&tokens, &top_k});
  shape_check("route", op.weights, "weights", {&tokens, &top_k});
  ROSE_CHECK(top_k <= experts, "route: %ld of %ld experts", long(top_k), long(experts));
  const Weight weight = {
      .rows = int(experts), .columns = int(hidden), .data = op.weight.as<bf16>()};
  const std::vector<double> x = read_inputs(Format::bf16, op.x);
  std::vector<float> logits(size_t(tokens * experts));

  with_type_of(op.x, "route", [&]<class T>(T) {
    std::vector<Lanes> w(static_cast<size_t>(hidden.size));
    for (int row = 0; row < experts; row += kLanes) {
      read_rows(weight, 0, row, w.data());
      for (int64_t token = 0; token < tokens; ++token) {
        const Lanes sum = dot(x.data() + token * hidden, w.data(), int(hidden));
        for (int e = row; e < std::min<int64_t>(row + kLanes, experts); ++e)
          logits[size_t(token * experts + e)] =
              to_f32(round_to<T>(sum.at[e - row] + op.bias.as<float>()[e]));
      }
    }

    for (int64_t token = 0; token < tokens; ++token) {
      const float* logit = logits.data() + token * experts;
      int32_t* chosen = op.experts.as<int32_t>() + token * top_k;
      float* weights = op.weights.as<float>() + token * top_k;
      for (int i = 0; i < top_k; ++i) chosen[i] = next_largest(logit, int(experts), chosen, i);

      double total = 0;
      for (int i = 0; i < top_k; ++i)
        total += std::exp(double(logit[chosen[i]]) - logit[chosen[0]]);
      for (int i = 0; i < top_k; ++i)
        weights[i] =
            to_f32(round_to<T>(std::exp(double(logit[chosen[i]]) - logit[chosen[0]]) / total));
    }
  });
}

}  // namespace rose::ref
