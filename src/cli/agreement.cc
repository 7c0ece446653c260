#include "cli/agreement.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace rose {

namespace {

// log of the sum of e^x.
double log_sum(std::span<const float> x) {
  const double most = double(*std::max_element(x.begin(), x.end()));
  double sum = 0;
  for (const float value : x) sum += std::exp(double(value) - most);
  return most + std::log(sum);
}

template <class Get>
double mean_of(const std::vector<Prediction>& tokens, const Get& get) {
  double sum = 0;
  for (const Prediction& token : tokens) sum += get(token);
  return tokens.empty() ? 0 : sum / double(tokens.size());
}

}  // namespace

Prediction compare_rows(std::span<const float> p, std::span<const float> q, int next) {
  ROSE_CHECK(p.size() == q.size() && next >= 0 && size_t(next) < p.size(),
             "agreement: rows of %zu and %zu, token %d", p.size(), q.size(), next);
  const double p_sum = log_sum(p), q_sum = log_sum(q);
  Prediction result;
  result.same_top = std::max_element(p.begin(), p.end()) - p.begin() ==
                    std::max_element(q.begin(), q.end()) - q.begin();
  for (size_t i = 0; i < p.size(); ++i) {
    const double log_q = double(q[i]) - q_sum, log_p = double(p[i]) - p_sum;
    result.kl += std::exp(log_q) * (log_q - log_p);
  }
  result.loss = p_sum - double(p[size_t(next)]);
  result.loss_against = q_sum - double(q[size_t(next)]);
  return result;
}

double Agreement::same_top() const {
  return mean_of(tokens, [](const Prediction& token) { return token.same_top ? 1.0 : 0.0; });
}
double Agreement::kl() const {
  return mean_of(tokens, [](const Prediction& token) { return token.kl; });
}
double Agreement::loss() const {
  return mean_of(tokens, [](const Prediction& token) { return token.loss; });
}
double Agreement::loss_against() const {
  return mean_of(tokens, [](const Prediction& token) { return token.loss_against; });
}

double Agreement::kl_at(double share) const {
  if (tokens.empty()) return 0;
  std::vector<double> sorted;
  for (const Prediction& token : tokens) sorted.push_back(token.kl);
  const auto at = sorted.begin() + std::ptrdiff_t(share * double(sorted.size() - 1) + 0.5);
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at;
}

}  // namespace rose
