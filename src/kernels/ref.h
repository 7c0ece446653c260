// The reference's functions: each op's formula in plain loops, in f64 between the loads and the
// roundings that the op's contract states. They fill reference_ops(), and a quicker table borrows those
// that have nothing to gain.
#pragma once
#include "kernels/ops.h"

namespace rose::ref {

int64_t weight_bytes(Format format, int experts, int rows, int columns);
void pack(Stream&, const Pack&);
void generate(Stream&, const Generate&);

void embed(Stream&, const Embed&);
void rms_norm(Stream&, const RmsNorm&);
void matmul(Stream&, const Matmul&);
void rope_store(Stream&, const RopeStore&);
void attend(Stream&, const Attend&);
void route(Stream&, const Route&);
void experts(Stream&, const Experts&);
void gather(Stream&, const Gather&);
void sample(Stream&, const Sample&);

}  // namespace rose::ref
