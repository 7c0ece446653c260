// What the reference's loops share. A sum runs in plain order in f64; eight independent ones (rows of a
// weight, query heads of a kv head) stand side by side, which is all that a compiler needs to keep
// vector registers busy.
#pragma once
#include <vector>

#include "kernels/weight.h"
#include "tensor/bf16.h"

namespace rose::ref {

inline constexpr int kLanes = 8;

struct Lanes {
  double at[kLanes] = {};
};

// Unrolled, or a compiler keeps the sums in memory instead of registers.
inline void add_product(Lanes& sum, double factor, const Lanes& x) {
#pragma GCC unroll 8
  for (int lane = 0; lane < kLanes; ++lane) sum.at[lane] += factor * x.at[lane];
}

// sum_c x[c] w[c], eight rows at once.
inline Lanes dot(const double* x, const Lanes* w, int columns) {
  Lanes sum;
  for (int c = 0; c < columns; ++c) add_product(sum, x[c], w[c]);
  return sum;
}

// Rounds once to T, by way of f32.
template <class T>
T round_to(double value) {
  return from_f32<T>(float(value));
}

// Calls body with a value of the element type of an activation: float or bf16.
template <class Body>
void with_type_of(const Tensor& tensor, const char* op, Body&& body) {
  switch (tensor.dtype) {
    case DType::f32: return body(float{});
    case DType::bf16: return body(bf16{});
    default: ROSE_CHECK(false, "%s: %s, wanted f32 or bf16", op, show(tensor).c_str());
  }
}

// Rows [row, row + 8) of a packed matrix, transposed: w[column].at[lane]. Rows past the last are zero.
void read_rows(const Weight& weight, int expert, int row, Lanes* w);

// What a weight of this format meets of a row of activations: the numbers, or their q8 values.
template <class T>
void read_inputs(Format met, const T* x, int columns, double* out);

// All rows of x [tokens, columns] so.
std::vector<double> read_inputs(Format met, const Tensor& x);

}  // namespace rose::ref
