// How the weights of a layer are shared out, so that all are read in the same time.
//
//   group   rows that are multiplied together: 16 of an E4M3 matrix, by one warp; a tile of 64 of an MXFP4 matrix, by
//           the four warps of a warpgroup, 16 each
//   chunk   columns that are multiplied at once: 64 of E4M3, 128 of MXFP4
//   team    a warp, or a warpgroup, that takes chunks
//
// The chunks of a product, group after group, are shared out evenly to the blocks, those of a block to its teams. So a
// team may end one group and begin the next, and what several teams have of a group is added up: in shared memory or,
// where two blocks have some of it, in memory.
#pragma once
#include "kernels/decode/params.cuh"

namespace rose::cuda {

constexpr int kWarpgroups = 3;
constexpr int kWorkerWarps = 4 * kWarpgroups;
constexpr int kMaxBlockGroups = 16;

__host__ __device__ constexpr bool is_mxfp4(int product) { return product >= kGateUp; }
__host__ __device__ constexpr int teams(int product) {
  return is_mxfp4(product) ? kWarpgroups : kWorkerWarps;
}

// Who has what of the products, worked out once, in shared memory.
struct Plan {
  // Of a block: chunks that follow each other, of groups of at most two matrices.
  struct Block {
    int groups;         // that it has chunks of
    int choice, group;  // the first: of which of a token's matrices, and which of it
    int chunk;          // the first, of the first group
  } block[kProducts];
  // Of a team: chunks that follow each other.
  struct Team {
    int chunks;
    int group, chunk;  // the first
  } team[kProducts][kWorkerWarps];
  // Teams that have chunks of a group.
  struct Owners {
    uint8_t first, end;
  } owners[kProducts][kMaxBlockGroups];

  // Stages that a warpgroup takes of a product.
  __device__ __forceinline__ int stages(int product, int warpgroup) const {
    if (is_mxfp4(product)) return team[product][warpgroup].chunks;
    int most = 0;
    for (int w = 0; w < 4; ++w) most = max(most, team[product][4 * warpgroup + w].chunks);
    return most;
  }

  // By threads i < kProducts * kWorkerWarps.
  __device__ void make(const DecodeParams& p, int i) {
    const int product = i / kWorkerWarps, t = i % kWorkerWarps, all_teams = teams(product);
    if (t >= all_teams) return;
    const ProductShape& shape = p.shapes[product];
    const int groups = shape.matrices * shape.groups, of_group = shape.chunks;
    const int blocks = gridDim.x, b = blockIdx.x;
    // Whole groups or, where sums are added up in memory, a group may be cut in two.
    const auto begin_of = [&](int b) {
      return shape.cut ? int(int64_t(groups) * of_group * b / blocks)
                       : groups * b / blocks * of_group;
    };
    const int begin = begin_of(b), chunks = begin_of(b + 1) - begin;
    const int first = begin / of_group, chunk = begin % of_group;
    const int touched = chunks ? (chunk + chunks - 1) / of_group + 1 : 0;
    const int from = chunks * t / all_teams, to = chunks * (t + 1) / all_teams;
    if (t == 0) block[product] = {touched, first / shape.groups, first % shape.groups, chunk};
    team[product][t] = {to - from, (chunk + from) / of_group, (chunk + from) % of_group};
    for (int group = t; group < touched; group += all_teams) {
      const int low = max(group * of_group - chunk, 0);
      const int high = min((group + 1) * of_group - chunk, chunks);
      // The team that has chunk c is the last that begins at or before it.
      const auto owner = [&](int c) { return ((c + 1) * all_teams - 1) / chunks; };
      owners[product][group] = {uint8_t(owner(low)), uint8_t(owner(high - 1) + 1)};
    }
  }
};

}  // namespace rose::cuda
