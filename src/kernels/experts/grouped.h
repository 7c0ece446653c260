// The variant of experts for many tokens (matmul/grouped.cuh), in a file of its own: it takes long to
// compile.
#pragma once
#include "device/device.h"
#include "kernels/experts/experts.h"

namespace rose::cuda {

struct SegmentList;

// How many slots a segment should have at most. Of 8, each block makes the list of segments for itself.
int grouped_tokens(const Experts& op);

// Whether grouped_experts itself fills the list of segments, while it lays out the tokens.
bool few_slots(int length, int slots, int experts);

// x in bf16, both weights mxfp4, or both mxfp4_fp8 or fp8_block, which meet E4M3 activations with one scale
// for 128 columns of each token.
void grouped_experts(Stream& stream, const Experts& op, int length, int most_segments,
                     const SegmentList& segments);
void grouped_experts_fp8(Stream& stream, const Experts& op, int length, int most_segments,
                         const SegmentList& segments);

}  // namespace rose::cuda
