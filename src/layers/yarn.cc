#include "layers/yarn.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rose {

namespace {

// The pair (as a real number) that turns `turns` times over the original context.
double pair_of(const Yarn& yarn, int head_dim, double turns) {
  return head_dim / 2.0 * std::log(yarn.original_context / (turns * 2 * std::numbers::pi)) /
         std::log(yarn.theta);
}

}  // namespace

std::vector<float> yarn_inverse_frequency(const Yarn& yarn, int head_dim) {
  double low = pair_of(yarn, head_dim, yarn.beta_fast);
  double high = pair_of(yarn, head_dim, yarn.beta_slow);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  std::vector<float> result;
  for (int k = 0; k < head_dim / 2; ++k) {
    const double plain = std::pow(yarn.theta, -2.0 * k / head_dim);
    const double ramp = std::clamp((k - low) / (high - low), 0.0, 1.0);
    result.push_back(
        float(yarn.factor <= 1 ? plain : ramp * plain / yarn.factor + (1 - ramp) * plain));
  }
  return result;
}

float yarn_concentration(const Yarn& yarn) {
  return yarn.factor <= 1 ? 1 : float(0.1 * std::log(yarn.factor) + 1);
}

}  // namespace rose
