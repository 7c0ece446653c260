#include "kernels/experts/experts.h"

#include <algorithm>
#include <cmath>

#include "kernels/ref.h"
#include "kernels/ref_math.h"

namespace rose {

ExpertsSizes sizes_of(const Experts& op) {
  Dim tokens("tokens"), top_k("top_k"), experts("experts", op.gate_up.experts);
  Dim hidden("hidden", op.gate_up.columns), wide("2 ffn", op.gate_up.rows);
  shape_check("experts", op.x, "x", {&tokens, &hidden});
  shape_check("experts", op.y, "y", {&tokens, &top_k, &hidden});
  shape_check("experts", op.experts, "experts", {&tokens, &top_k});
  shape_check("experts", op.gate_up_bias, "gate_up_bias", {&experts, &wide});
  shape_check("experts", op.down_bias, "down_bias", {&experts, &hidden});
  ROSE_CHECK(op.down.experts == experts && op.down.rows == hidden && op.down.columns * 2 == wide,
             "experts: down is %d x [%d, %d], gate_up %d x [%d, %d]", op.down.experts, op.down.rows,
             op.down.columns, op.gate_up.experts, op.gate_up.rows, op.gate_up.columns);
  return {.tokens = int(tokens),
          .top_k = int(top_k),
          .slots = int(tokens * top_k),
          .experts = int(experts),
          .hidden = int(hidden),
          .ffn = op.down.columns};
}

}  // namespace rose

namespace rose::ref {

namespace {

double gated(double gate, double up, const Experts& op) {
  const double limit = double(op.limit), alpha = double(op.alpha);
  gate = std::min(gate, limit);  // from above only
  up = std::clamp(up, -limit, limit);
  return gate / (1 + std::exp(-alpha * gate)) * (up + 1);
}

// y[slot] = W_expert x[slot / share] + bias for the slots given, eight rows at a time:
// store(slot, row, eight rows' values).
template <class Store>
void linear(Stream& stream, const Weight& weight, int expert, const std::vector<int>& slots,
            int share, const std::vector<double>& x, const Tensor& bias, const Store& store) {
  const float* b = bias.as<float>() + int64_t(expert) * weight.rows;
  stream.threads->parallel_for(weight.rows, kLanes, [&](int64_t begin, int64_t end) {
    std::vector<Lanes> w(size_t(weight.columns));
    for (int row = int(begin); row < int(end); row += kLanes) {
      read_rows(weight, expert, row, w.data());
      for (const int slot : slots) {
        Lanes sum =
            dot(x.data() + int64_t(slot / share) * weight.columns, w.data(), weight.columns);
        const int rows = std::min(kLanes, weight.rows - row);
        for (int r = 0; r < rows; ++r) sum.at[r] += b[row + r];
        store(slot, row, rows, sum);
      }
    }
  });
}

// A slot is one choice of one token: slot = token * top_k + i.
template <class T>
void run(Stream& stream, const Experts& op, int tokens, int top_k, int hidden, int ffn) {
  const int slots = tokens * top_k;
  std::vector<std::vector<int>> slots_of(size_t(op.gate_up.experts));
  for (int slot = 0; slot < slots; ++slot) {
    const int expert = op.experts.as<int32_t>()[slot];
    ROSE_CHECK(expert >= 0 && expert < op.gate_up.experts, "experts: expert %d of %d", expert,
               op.gate_up.experts);
    slots_of[size_t(expert)].push_back(slot);
  }

  const std::vector<double> x = read_inputs(op.gate_up.format, op.x);
  std::vector<T> a(size_t(slots) * size_t(ffn));
  for (int expert = 0; expert < op.gate_up.experts; ++expert)
    linear(stream, op.gate_up, expert, slots_of[size_t(expert)], top_k, x, op.gate_up_bias,
           [&](int slot, int row, int rows, const Lanes& h) {
             for (int r = 0; r < rows; r += 2)
               a[size_t(slot) * size_t(ffn) + size_t(row + r) / 2] = round_to<T>(
                   gated(to_f32(round_to<T>(h.at[r])), to_f32(round_to<T>(h.at[r + 1])), op));
           });

  const std::vector<double> inputs =
      read_inputs(op.down.format, Tensor(a.data(), op.x.dtype, {slots, ffn}));
  for (int expert = 0; expert < op.down.experts; ++expert)
    linear(stream, op.down, expert, slots_of[size_t(expert)], 1, inputs, op.down_bias,
           [&](int slot, int row, int rows, const Lanes& h) {
             for (int r = 0; r < rows; ++r)
               op.y.as<T>()[int64_t(slot) * hidden + row + r] = round_to<T>(h.at[r]);
           });
}

}  // namespace

void experts(Stream& stream, const Experts& op) {
  const ExpertsSizes size = sizes_of(op);
  with_type_of(op.x, "experts", [&]<class T>(T) {
    run<T>(stream, op, size.tokens, size.top_k, size.hidden, size.ffn);
  });
}

}  // namespace rose::ref
