// The ops of the CPU backend: checks, scratch memory and the sharing of work among threads, around the
// inner loops of one instruction set (kernels.h). What has nothing to gain is borrowed from ref.h.
#pragma once
#include "kernels/cpu/kernels.h"
#include "kernels/ops.h"

namespace rose {

namespace cpu {

// Null where this processor or its system cannot run them.
const Ops* avx2_ops();
const Ops* avx512_ops();

int64_t weight_bytes(Format format, int experts, int rows, int columns);
void pack(const Kernels&, Stream&, const Pack&);

void rms_norm(const Kernels&, Stream&, const RmsNorm&);
void matmul(const Kernels&, Stream&, const Matmul&);
void rope_store(const Kernels&, Stream&, const RopeStore&);
void attend(const Kernels&, Stream&, const Attend&);
void route(const Kernels&, Stream&, const Route&);
void experts(const Kernels&, Stream&, const Experts&);

}  // namespace cpu

}  // namespace rose
