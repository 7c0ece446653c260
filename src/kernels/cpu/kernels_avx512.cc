#include "kernels/cpu/attend.h"
#include "kernels/cpu/dot.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd_avx512.h"

namespace rose::cpu {

constexpr Kernels kAvx512 = {
    .dot = {dot<Avx512, Bf16>, dot<Avx512, Q8>, dot<Avx512, Mxfp4Float>, dot_mxfp4_q8<Avx512>},
    .quantise = quantise<Avx512>,
    .quantise_weights = quantise_weights<Avx512>,
    .convert = convert<Avx512>,
    .rms_norm = rms_norm<Avx512>,
    .route = route<Avx512>,
    .turn = turn<Avx512>,
    .rotate = rotate<Avx512>,
    .swiglu = swiglu<Avx512>,
    .combine = combine<Avx512>,
    .attend = attend<Avx512>,
};

}  // namespace rose::cpu
