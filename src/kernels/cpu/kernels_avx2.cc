#include "kernels/cpu/attend.h"
#include "kernels/cpu/dot.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd_avx2.h"

namespace rose::cpu {

constexpr Kernels kAvx2 = {
    .dot = {dot<Avx2, Bf16>, dot<Avx2, Q8>, dot<Avx2, Mxfp4Float>, dot_mxfp4_q8<Avx2>},
    .quantise = quantise<Avx2>,
    .quantise_weights = quantise_weights<Avx2>,
    .convert = convert<Avx2>,
    .rms_norm = rms_norm<Avx2>,
    .route = route<Avx2>,
    .turn = turn<Avx2>,
    .rotate = rotate<Avx2>,
    .swiglu = swiglu<Avx2>,
    .combine = combine<Avx2>,
    .attend = attend<Avx2>,
};

}  // namespace rose::cpu
