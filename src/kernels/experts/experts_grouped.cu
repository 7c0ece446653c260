#include "kernels/experts/grouped.cuh"

namespace rose::cuda {

bool few_slots(int length, int slots, int experts) {
  return length == kFewTokens && slots <= kFew && experts <= kFew;
}

int grouped_tokens(const Experts& op) {
  const int tokens = op.x.dim(0), slots = tokens * op.experts.dim(1), experts = op.gate_up.experts;
  const auto fits = [](const Weight& w) { return w.columns % kTile == 0 && w.columns <= 4096; };
  if (op.gate_up.format == Format::mxfp4_fp8 && tokens <= 8 && slots <= kBlockListSlots &&
      experts <= kBlockListExperts && fits(op.gate_up) && fits(op.down))
    return 8;
  if (op.gate_up.format != Format::mxfp4 && slots <= 8 * experts) return 16;
  return slots <= 32 * experts ? 32 : 128;
}

void grouped_experts(Stream& stream, const Experts& op, int length, int most_segments,
                     const SegmentList& segments) {
  if (op.gate_up.format == Format::fp8_block)
    return grouped_experts_fp8(stream, op, length, most_segments, segments);
  const bool e4m3 = op.gate_up.format == Format::mxfp4_fp8;
  const auto go = [&](auto with) { with(stream, op, most_segments, segments); };
  if (length == 8)
    go(run_grouped_experts<GroupedMxfp4E4m3, 8>);
  else if (length == 16)
    go(run_grouped_experts<GroupedMxfp4E4m3, 16>);
  else if (length == 32)
    e4m3 ? go(run_grouped_experts<GroupedMxfp4E4m3, 32>)
         : go(run_grouped_experts<GroupedMxfp4F16, 32>);
  else
    e4m3 ? go(run_grouped_experts<GroupedMxfp4E4m3, 128>)
         : go(run_grouped_experts<GroupedMxfp4F16, 128>);
}

}  // namespace rose::cuda
