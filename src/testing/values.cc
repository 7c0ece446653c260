#include "testing/values.h"

namespace rose::testing {

namespace {

std::string place(const Values& values, size_t i) {
  std::string text = "]";
  for (size_t d = values.dims.size(); d-- > 0;) {
    const size_t dim = size_t(values.dims[d]);
    text = (d ? ", " : "[") + std::to_string(i % dim) + text;
    i /= dim;
  }
  return text;
}

std::string shown(const Values& got, const Values& want, size_t i) {
  return strf("%s: %.9g, want %.9g", place(want, i).c_str(), double(got.at[i]), double(want.at[i]));
}

// How far apart, in units of what is allowed: more than 1 is a failure.
double excess(float got, float want, double allowed) {
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) == std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(want) || std::isinf(got)) return want == got ? 0 : INFINITY;
  const double apart = std::fabs(double(got) - want);
  return apart == 0 ? 0 : allowed > 0 ? apart / allowed : INFINITY;
}

struct Comparison {
  int64_t count = 0;  // that are too far apart
  size_t first = 0, worst = 0;
  double most = 0;
};

Comparison compare(const Values& got, const Values& want, const Values* bound,
                   Tolerance tolerance) {
  ROSE_CHECK(got.at.size() == want.at.size() && (!bound || bound->at.size() == want.at.size()),
             "compare: %zu values, want %zu", got.at.size(), want.at.size());
  Comparison found;
  for (size_t i = 0; i < want.at.size(); ++i) {
    const double allowed = tolerance.absolute + tolerance.relative * std::fabs(double(want.at[i])) +
                           (bound ? double(bound->at[i]) : 0);
    const double over = excess(got.at[i], want.at[i], allowed);
    if (over <= 1) continue;
    if (found.count++ == 0) found.first = i;
    if (over > found.most) found.most = over, found.worst = i;
  }
  return found;
}

::testing::AssertionResult report(const Values& got, const Values& want, const Values* bound,
                                  Tolerance tolerance) {
  if (got.dims != want.dims)
    return ::testing::AssertionFailure()
           << "shapes differ: " << got.at.size() << " elements, want " << want.at.size();
  const Comparison found = compare(got, want, bound, tolerance);
  if (found.count == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << found.count << " of " << want.at.size() << " differ; first at "
         << shown(got, want, found.first) << "; worst at " << shown(got, want, found.worst) << " ("
         << found.most << " times what is allowed)";
}

}  // namespace

::testing::AssertionResult close(const Values& got, const Values& want, Tolerance tolerance) {
  return report(got, want, nullptr, tolerance);
}

::testing::AssertionResult close(const Values& got, const Values& want, const Values& bound,
                                 Tolerance tolerance) {
  return report(got, want, &bound, tolerance);
}

int64_t apart(const Values& got, const Values& want, const Values& bound, Tolerance tolerance) {
  return compare(got, want, &bound, tolerance).count;
}

double relative_error(const Values& got, const Values& want) {
  ROSE_CHECK(got.at.size() == want.at.size(), "relative_error: %zu values, want %zu", got.at.size(),
             want.at.size());
  double apart = 0, size = 0;
  for (size_t i = 0; i < want.at.size(); ++i) {
    const double d = double(got.at[i]) - want.at[i];
    apart += d * d;
    size += double(want.at[i]) * want.at[i];
  }
  return std::sqrt(apart / size);
}

}  // namespace rose::testing
