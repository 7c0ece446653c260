// The activation between an expert's two matrices.
#pragma once

namespace rose::cuda {

__device__ inline float gated(float gate, float up, float limit, float alpha) {
  gate = fminf(gate, limit);  // from above only
  up = fminf(fmaxf(up, -limit), limit);
  return gate / (1 + expf(-alpha * gate)) * (up + 1);
}

}  // namespace rose::cuda
