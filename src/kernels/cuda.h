// The CUDA backend's functions (kernels/*/*.cu). They fill the table of ops.cc.
#pragma once
#include "kernels/ops.h"

namespace rose::cuda {

bool keeps(Format format);
int64_t weight_bytes(Format format, int experts, int rows, int columns);
void pack(Stream&, const Pack&);
void generate(Stream&, const Generate&);

bool decode(Stream&, const Decode&);

void embed(Stream&, const Embed&);
void rms_norm(Stream&, const RmsNorm&);
void matmul(Stream&, const Matmul&);
void rope_store(Stream&, const RopeStore&);
void attend(Stream&, const Attend&);
void route(Stream&, const Route&);
void experts(Stream&, const Experts&);
void gather(Stream&, const Gather&);
void sample(Stream&, const Sample&);

}  // namespace rose::cuda
