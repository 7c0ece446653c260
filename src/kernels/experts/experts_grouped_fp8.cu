#include "kernels/experts/grouped.cuh"

namespace rose::cuda {

void grouped_experts_fp8(Stream& stream, const Experts& op, int length, int most_segments,
                         const SegmentList& segments) {
  const auto go = [&](auto with) { with(stream, op, most_segments, segments); };
  if (length == 16)
    go(run_grouped_experts<GroupedFp8Block, 16>);
  else if (length == 32)
    go(run_grouped_experts<GroupedFp8Block, 32>);
  else
    go(run_grouped_experts<GroupedFp8Block, 128>);
}

}  // namespace rose::cuda
