#include "kernels/experts/grouped.cuh"

namespace rose::cuda {

bool few_slots(int length, int slots, int experts) {
  return length == kFewTokens && slots <= kFew && experts <= kFew;
}

int grouped_tokens(Format format, int slots, int experts) {
  if (format != Format::mxfp4 && slots <= 8 * experts) return 16;
  return slots <= 32 * experts ? 32 : 128;
}

void grouped_experts(Stream& stream, const Experts& op, int top_k, int length, int most_segments,
                     const SegmentList& segments, const Tensor& out) {
  if (op.gate_up.format == Format::fp8_block)
    return grouped_experts_fp8(stream, op, top_k, length, most_segments, segments, out);
  const bool e4m3 = op.gate_up.format == Format::mxfp4_fp8;
  const auto go = [&](auto with) { with(stream, op, top_k, most_segments, segments, out); };
  if (length == 16)
    go(run_grouped_experts<GroupedMxfp4E4m3, 16>);
  else if (length == 32)
    e4m3 ? go(run_grouped_experts<GroupedMxfp4E4m3, 32>)
         : go(run_grouped_experts<GroupedMxfp4F16, 32>);
  else
    e4m3 ? go(run_grouped_experts<GroupedMxfp4E4m3, 128>)
         : go(run_grouped_experts<GroupedMxfp4F16, 128>);
}

}  // namespace rose::cuda
