// A slot is one choice of one token: slot = token * top_k + i. Slots are sorted by expert, so that each
// expert's matrices are read once for all tokens that chose it; all threads share the rows of all
// experts.
#include <vector>

#include "device/arena.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/layout.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/share.h"
#include "kernels/experts/experts.h"

namespace rose::cpu {

namespace {

struct Plan {
  // Of each place: slots in the order of their experts.
  std::vector<int32_t> slot, token;
  std::vector<int> chosen;  // experts that anyone chose
  std::vector<int> first;   // [chosen + 1]  the places of each of them
};

Plan sort_slots(const Experts& op, int slots, int top_k) {
  const int32_t* expert = op.experts.as<int32_t>();
  std::vector<int> at(size_t(op.gate_up.experts) + 1, 0);
  for (int slot = 0; slot < slots; ++slot) {
    ROSE_CHECK(expert[slot] >= 0 && expert[slot] < op.gate_up.experts, "experts: expert %d of %d",
               expert[slot], op.gate_up.experts);
    ++at[size_t(expert[slot]) + 1];
  }
  Plan plan;
  for (size_t e = 0; e + 1 < at.size(); ++e) {
    if (at[e + 1] > 0) {
      plan.chosen.push_back(int(e));
      plan.first.push_back(at[e]);
    }
    at[e + 1] += at[e];
  }
  plan.first.push_back(slots);
  plan.token.resize(size_t(slots));
  plan.slot.resize(size_t(slots));
  for (int slot = 0; slot < slots; ++slot) {
    const int place = at[size_t(expert[slot])]++;
    plan.slot[size_t(place)] = slot;
    plan.token[size_t(place)] = slot / top_k;
  }
  return plan;
}

// y[y_rows[place]] = x[rows[place]] W_expert^T + bias_expert for every place; no `rows`: row `place`.
void linear(const Kernels& kernels, Stream& stream, const Plan& plan, const Weight& weight,
            const Inputs& x, const int32_t* rows, const Tensor& bias, const Tensor& y,
            const int32_t* y_rows) {
  const int64_t scratch_bytes = dot_scratch_bytes(weight.columns);
  uint8_t* scratch = take_each<uint8_t>(stream, DType::u8, scratch_bytes);
  // Units of work: groups of rows of all chosen experts, one after another.
  const int64_t groups = groups_of(weight.rows);
  const int64_t chosen = int64_t(plan.chosen.size());
  const double mean_tokens = double(plan.token.size()) / double(chosen);
  share(stream, chosen * groups, 2, group_ns(weight, int(mean_tokens + 1)),
        [&](int64_t begin, int64_t end, int thread) {
          while (begin < end) {
            const size_t i = size_t(begin / groups);
            const int first_group = int(begin % groups);
            const int last_group = int(std::min(groups, first_group + (end - begin)));
            const int place = plan.first[i];
            Inputs inputs = x;
            if (!rows) {
              inputs.values += inputs.values ? place * x.stride : 0;
              inputs.codes += inputs.codes ? place * x.stride : 0;
              inputs.scales += inputs.scales ? place * (x.stride / kBlock) : 0;
              inputs.corrections += inputs.corrections ? place * (x.stride / kBlock) : 0;
            }
            kernels.dot[int(weight.format)]({
                .matrix = matrix_of(weight, plan.chosen[i]),
                .rows = weight.rows,
                .columns = weight.columns,
                .first_group = first_group,
                .last_group = last_group,
                .x = inputs,
                .x_rows = rows ? rows + place : nullptr,
                .tokens = plan.first[i + 1] - place,
                .bias = bias.as<float>() + int64_t(plan.chosen[i]) * weight.rows,
                .y = row_of(y, y_rows ? 0 : place),
                .y_rows = y_rows ? y_rows + place : nullptr,
                .scratch = scratch + thread * scratch_bytes,
            });
            begin += last_group - first_group;
          }
        });
}

}  // namespace

void experts(const Kernels& kernels, Stream& stream, const Experts& op) {
  const ExpertsSizes size = sizes_of(op);
  const int slots = size.slots, ffn = size.ffn;
  activation_check("experts", op.x, "x");
  activation_check("experts", op.y, "y");
  if (slots == 0) return;

  const Taken own(*stream.scratch);
  const Plan plan = sort_slots(op, slots, size.top_k);
  const Inputs x = prepare_inputs(kernels, stream, op.x, op.gate_up.format);
  const Tensor h = stream.scratch->take(op.x.dtype, {slots, 2 * ffn});
  linear(kernels, stream, plan, op.gate_up, x, plan.token.data(), op.gate_up_bias, h, nullptr);

  const Tensor a = stream.scratch->take(op.x.dtype, {slots, ffn});
  share(stream, slots, 1, ffn * 0.5, [&](int64_t begin, int64_t end, int) {
    for (int64_t place = begin; place < end; ++place)
      kernels.swiglu(row_of(h, place), ffn, op.limit, op.alpha, row_of(a, place));
  });

  const Inputs inner = prepare_inputs(kernels, stream, a, op.down.format);
  linear(kernels, stream, plan, op.down, inner, nullptr, op.down_bias, op.y, plan.slot.data());
}

}  // namespace rose::cpu
