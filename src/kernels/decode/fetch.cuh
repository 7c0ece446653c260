// The weights of a step of one token on their way into shared memory. Each warpgroup that multiplies has a ring of
// stages, which a warp of its own keeps full of the weights that the warpgroup will multiply, product after product and
// layer after layer: while a product waits for its tokens, its weights arrive. Only those of the experts wait until they
// have been chosen.
#pragma once
#include "device/ptx.cuh"
#include "kernels/decode/plan.cuh"

namespace rose::cuda {

// A stage is a chunk of MXFP4 for a warpgroup, or one of E4M3 for each of its warps.
constexpr int kStages = 12;
constexpr int kStageBytes = 2 * tile_bytes(Format::mxfp4);
constexpr int kRingBytes = kStages * kStageBytes;

// A place in a ring, and the parity of how often it has been used.
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

struct WeightRing {
  uint8_t* stages;  // [kStages] of kStageBytes
  uint64_t* full;   // [kStages]  the bytes have landed
  uint64_t* empty;  // [kStages]  all four warps have read them
};

// What one warp does for a warpgroup, for all layers. `chosen` are the experts of a layer once the phase of `routed` with
// the layer's parity has completed.
__device__ __forceinline__ void fetch_weights(const DecodeParams& p, const Plan& plan,
                                              const int* chosen, uint64_t* routed,
                                              const WeightRing& ring, int warpgroup) {
  const int lane = threadIdx.x % kWarp;
  RingPlace place;
  for (int layer = 0; layer < p.layers; ++layer)
    for (int product = 0; product < kProducts; ++product) {
      if (product == kGateUp) barrier_wait(routed, layer % 2);
      // A lane fetches for a team.
      const bool mxfp4 = is_mxfp4(product);
      const ProductShape& shape = p.shapes[product];
      const Plan::Block block = plan.block[product];
      Plan::Team mine = {};
      if (lane < (mxfp4 ? 1 : 4))
        mine = plan.team[product][mxfp4 ? warpgroup : 4 * warpgroup + lane];
      int choice = block.choice, group = block.group + mine.group;
      if (group >= shape.groups) ++choice, group -= shape.groups;
      int left_of_group = 0;
      const uint8_t* from = nullptr;
      const auto aim = [&](int chunk) {
        const uint8_t* data = p.layer[layer].of[product].data;
        if (mxfp4)
          from = data + (int64_t(chosen[choice] * shape.groups + group) * shape.units + 2 * chunk) *
                            tile_bytes(Format::mxfp4);
        else
          from = data + (int64_t(group / 4) * shape.units + chunk) * tile_bytes(Format::fp8) +
                 group % 4 * (tile_bytes(Format::fp8) / 4);
        left_of_group = shape.chunks - chunk;
      };
      if (mine.chunks > 0) aim(mine.chunk);
      for (int left = mine.chunks; __any_sync(~0u, left > 0); --left, place.advance()) {
        int bytes = 0;
        if (left > 0) {
          bytes = tile_bytes(Format::fp8) / 4;
          if (mxfp4)  // the last chunk may have one unit
            bytes = left_of_group == 1 && shape.units % 2 ? kStageBytes / 2 : kStageBytes;
        }
        uint64_t* full = &ring.full[place.stage];
        const int all = __reduce_add_sync(~0u, bytes);
        if (lane == 0) {
          barrier_wait(&ring.empty[place.stage], place.parity ^ 1);
          barrier_expect(full, all);
        }
        __syncwarp();
        if (left <= 0) continue;
        bulk_load(ring.stages + place.stage * kStageBytes + lane * bytes, from, bytes, full);
        from += mxfp4 ? kStageBytes : tile_bytes(Format::fp8);
        if (--left_of_group == 0) {
          if (++group == shape.groups) ++choice, group = 0;
          if (left > 1) aim(0);
        }
      }
    }
}

}  // namespace rose::cuda
