// The draw: the token at which the sum of the kept weights, in the order of ids, passes a random share of the
// whole. Sums of warps and blocks say in whose run that is; its lanes then walk it together.
#pragma once
#include "kernels/sample/weights.cuh"

namespace rose::cuda {

// What some neighbours hold of a row: of the weights above a cut, and how many lie right on it. Which of those
// are kept depends on how many came before; the sum up to any token does not.
struct Held {
  uint64_t above = 0;
  uint32_t equal = 0;

  __device__ Held operator+(const Held& other) const {
    return {above + other.above, equal + other.equal};
  }
  __device__ void add(const Cut& cut, float value) {
    const uint32_t code = __float_as_uint(value);
    if (code > cut.code) above += whole(code);
    if (code == cut.code) ++equal;
  }
  __device__ uint64_t kept(const Cut& cut) const {
    return above + min(equal, cut.equal) * whole(cut.code);
  }
};

// Of this lane and those before it.
__device__ inline Held held_up_to(Held x) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const Held other = {__shfl_up_sync(~0u, x.above, step), __shfl_up_sync(~0u, x.equal, step)};
    if (lane >= step) x = x + other;
  }
  return x;
}
__device__ inline Held held_by(const Held& x, int lane) {
  return {__shfl_sync(~0u, x.above, lane), __shfl_sync(~0u, x.equal, lane)};
}

// The token in the one thread that finds it, -1 in all others. `random` has 24 bits: the target is
// floor(all x random / 2^24).
template <int kBlocks>
__device__ int draw(const Share& share, Cluster<kBlocks>& cluster, const Cut& cut,
                    uint64_t random) {
  __shared__ Held of_warp[kWarps], of_block[2];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  Held mine;
  share.each([&](float value, int) { mine.add(cut, value); });
  const Held of_run = held_by(held_up_to(mine), kWarp - 1);
  if (lane == 0) of_warp[warp] = of_run;
  __syncthreads();
  const Held warps = held_up_to(lane < kWarps ? of_warp[lane] : Held{});
  Held& told = of_block[cluster.turn];
  if (threadIdx.x == kWarp - 1) told = warps;
  cluster.meet();
  const Held blocks = held_up_to(lane < kBlocks ? cluster.of(told, lane) : Held{});

  const uint64_t all = held_by(blocks, kWarp - 1).kept(cut);
  const uint64_t target = __umul64hi(all << 4, random << 36);
  const int block = int(cooperative_groups::this_cluster().block_rank());
  Held before = {};
  if (block > 0) before = held_by(blocks, block - 1);
  if (warp > 0) before = before + held_by(warps, warp - 1);
  if (target < before.kept(cut) || target >= (before + of_run).kept(cut)) return -1;

  for (int quad = share.begin + lane;; quad += kWarp) {  // one warp of the cluster
    Held four;
    float4 x = {};
    if (quad < share.end) x = share.quads[quad];
    Share::visit(x, 0, [&](float value, int) { four.add(cut, value); });
    const Held up_to = held_up_to(four);
    const unsigned passed = __ballot_sync(~0u, target < (before + up_to).kept(cut));
    if (passed == 0) {
      before = before + held_by(up_to, kWarp - 1);
      continue;
    }
    const int first = __ffs(int(passed)) - 1;
    if (first > 0) before = before + held_by(up_to, first - 1);
    if (lane != first) return -1;
    int drawn = -1;
    Share::visit(x, share.first + 4 * quad, [&](float value, int token) {
      before.add(cut, value);
      if (drawn < 0 && target < before.kept(cut)) drawn = token;
    });
    return drawn;
  }
}

}  // namespace rose::cuda
