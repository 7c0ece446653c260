// Numbers read back from a backend, and their comparison with what was wanted.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace rose::testing {

struct Values {
  std::vector<int64_t> dims;
  std::vector<float> at;  // row-major
};

// How far two numbers may be apart, with its reason (docs/numbers.md).
struct Tolerance {
  double absolute = 0;
  double relative = 0;

  // Two correct roundings of nearly the same number differ by a unit in the last place at most; a
  // bf16 has 8 significant bits, so that is 2^-7 of the value. In f32, a handful of operations between
  // the loads and the store: 4 units.
  static Tolerance rounding(DType dtype) {
    return {.relative = dtype == DType::bf16 ? 0x1p-7 : 0x1p-22};
  }
  // A sum of `terms` products in f32, in whatever order: each of the additions rounds by at most
  // 2^-24 of the sum of magnitudes (Higham, Accuracy and Stability, section 3.1).
  static double dot(int terms) { return (terms + 2) * 0x1p-24; }
};

// NaN and infinity must be in the same places; else |got - want| <= absolute + relative |want|. The
// failure says how many differ and shows the first and the worst.
::testing::AssertionResult close(const Values& got, const Values& want, Tolerance tolerance = {});

// The same with a bound of its own for each element, on top of the tolerance.
::testing::AssertionResult close(const Values& got, const Values& want, const Values& bound,
                                 Tolerance tolerance = {});

// How many elements are further apart than that.
int64_t apart(const Values& got, const Values& want, const Values& bound, Tolerance tolerance = {});

// |got - want| of all elements together, relative to |want| (euclidean).
double relative_error(const Values& got, const Values& want);

}  // namespace rose::testing
