// A token times the weights that fetch.cuh brings: E4M3 as f16 by products of one warp, MXFP4 as E4M3 by those of a
// warpgroup.
#pragma once
#include "kernels/decode/fetch.cuh"
#include "kernels/matmul/grouped_formats.cuh"
#include "kernels/matmul/stream.cuh"

namespace rose::cuda {

// Tokens that meet MXFP4: of a unit (64 columns) eight rows of E4M3, of which only the first is used.
constexpr int kTokenUnitBytes = 8 * 64;
constexpr int kTokenChunkBytes = 2 * kTokenUnitBytes;

// What a warp that multiplies does.
struct Multiplier {
  const DecodeParams& p;
  const Plan& plan;
  const WeightRing& ring;  // of its warpgroup
  RingPlace place = {};

  // Computed when needed: as members they would cost a register each.
  static __device__ __forceinline__ int warp() { return threadIdx.x / kWarp; }
  static __device__ __forceinline__ int lane() { return threadIdx.x % kWarp; }
  static __device__ __forceinline__ int team(int product) {
    return is_mxfp4(product) ? warp() / 4 : warp();
  }

  // sums[group][team][row] = this team's part of an E4M3 product of a layer. tokens: f16
  template <int kProduct>
  __device__ __forceinline__ void multiply(const uint8_t* tokens, float* sums) {
    const int chunks = p.shapes[kProduct].chunks;
    const Plan::Team mine = plan.team[kProduct][warp()];
    int group = mine.group, chunk = mine.chunk;
    float sum[4] = {};
    if (mine.chunks == 0) put<kProduct>(sums, group, 0, 0);
    // Warps of a warpgroup may have one chunk more than others.
    const int stages = __shfl_sync(~0u, plan.stages(kProduct, warp() / 4), 0);
#pragma unroll 1
    for (int i = 0; i < stages; ++i) {
      barrier_wait(&ring.full[place.stage], place.parity);
      if (i < mine.chunks) {
        const uint8_t* slot =
            ring.stages + place.stage * kStageBytes + warp() % 4 * (tile_bytes(Format::fp8) / 4);
        StreamFp8::multiply(sum, expand_fp8(slot), tokens + chunk * 128, lane() % 4);
        if (++chunk == chunks || i + 1 == mine.chunks) {
          put<kProduct>(sums, group, sum[0], sum[2]);
          ++group, chunk = 0;
          sum[0] = sum[1] = sum[2] = sum[3] = 0;
        }
      }
      give_back();
    }
  }

  // The same of an MXFP4 product, by whole warpgroups. tokens(group): E4M3, a scale for each chunk in scales(group)
  template <int kProduct, class Tokens, class Scales>
  __device__ __forceinline__ void multiply_mxfp4(const Tokens& tokens, const Scales& scales,
                                                 float* sums) {
    const int chunks = p.shapes[kProduct].chunks, odd_units = p.shapes[kProduct].units % 2;
    const Plan::Team mine = plan.team[kProduct][team(kProduct)];
    int group = mine.group, left = __shfl_sync(~0u, mine.chunks, 0);
    int left_of_group = chunks - mine.chunk;
    float total[2] = {};
    if (left == 0) return put<kProduct>(sums, group, 0, 0);
    uint64_t token = operand<64>(shared_address(tokens(group) + mine.chunk * kTokenChunkBytes));
    const float* scale = scales(group) + mine.chunk;
    const auto step = [&](const uint32_t(&a)[16], uint32_t(&next)[16]) {
      this->step(a, next, left > 1, odd_units && left_of_group == 2, token, *scale, total);
      token += kTokenChunkBytes >> 4, ++scale;
      --left;
      if (--left_of_group == 0 || left == 0) {
        put<kProduct>(sums, group, total[0], total[1]);
        total[0] = total[1] = 0;
        ++group;
        token = operand<64>(shared_address(tokens(group))), scale = scales(group);
        left_of_group = chunks;
      }
    };
    uint32_t even[16], odd[16];
    barrier_wait(&ring.full[place.stage], place.parity);
    expand(even, place.stage);
    if (odd_units && left_of_group == 1) clear_second(even);
#pragma unroll 1
    while (left > 1) {
      step(even, odd);
      step(odd, even);
    }
    if (left > 0) step(even, odd);
  }

  // The sum of a row of the block's groups over the teams that have some of it, in their order.
  template <int kProduct>
  __device__ __forceinline__ float total(int group, int row, const float* sums) const {
    const Plan::Owners owners = plan.owners[kProduct][group];
    float total = 0;
    for (int t = owners.first; t < owners.end; ++t)
      total += sums[(group * teams(kProduct) + t) * group_rows(kProduct) + row];
    return total;
  }

 private:
  // Rows g and g + 8 of this warp's 16. A team that has nothing puts zeros: it may stand between two that have some of
  // the group.
  template <int kProduct>
  __device__ __forceinline__ void put(float* sums, int group, float low, float high) const {
    float* to = sums + (group * teams(kProduct) + team(kProduct)) * group_rows(kProduct) +
                (is_mxfp4(kProduct) ? warp() % 4 * 16 : 0) + lane() / 4;
    if (lane() % 4 == 0) to[0] = low, to[8] = high;
  }

  __device__ __forceinline__ void give_back() {
    __syncwarp();  // all have read it
    if (lane() == 0) barrier_arrive(&ring.empty[place.stage]);
    place.advance();
  }

  // 16 rows of a tile: those bytes that StreamFp8 would have copied for a lane.
  static __device__ __forceinline__ ExpandedF16 expand_fp8(const uint8_t* rows) {
    const int g = lane() / 4, c = lane() % 4;
    return StreamFp8::expand(rows + g * 64 + (c ^ (g / 2 % 4)) * 16);
  }

  // A chunk of MXFP4 as E4M3 in registers.
  __device__ __forceinline__ void expand(uint32_t (&a)[16], int stage) const {
    const uint8_t* tiles = ring.stages + stage * kStageBytes;
    const int thread = threadIdx.x % 128;
    GroupedMxfp4E4m3::expand(a, PackedMxfp4::load(tiles, thread));
    GroupedMxfp4E4m3::expand(a + 8, PackedMxfp4::load(tiles + kStageBytes / 2, thread));
  }
  // Of a second unit that is not there.
  static __device__ __forceinline__ void clear_second(uint32_t (&a)[16]) {
#pragma unroll
    for (int i = 8; i < 16; ++i) a[i] = 0;
  }

  // Multiplies a chunk, and meanwhile expands the one after it, of which there may be only half; past the last one that
  // is something that nobody uses.
  __device__ __forceinline__ void step(const uint32_t (&a)[16], uint32_t (&next)[16], bool more,
                                       bool next_is_half, uint64_t token, float scale,
                                       float (&total)[2]) {
    float sum[4];
    wgmma_fence();
    GroupedMxfp4E4m3::multiply<8>(sum, a, nullptr, token, false);
    GroupedMxfp4E4m3::multiply<8>(sum, a + 8, nullptr, token + (kTokenUnitBytes >> 4), true);
    wgmma_commit();
    RingPlace after = place;
    after.advance();
    if (more) barrier_wait(&ring.full[after.stage], after.parity);
    expand(next, after.stage);
    wgmma_wait<0>();
    wgmma_keep(a);
    if (next_is_half) clear_second(next);
    total[0] += scale * sum[0], total[1] += scale * sum[2];
    give_back();
  }
};

}  // namespace rose::cuda
