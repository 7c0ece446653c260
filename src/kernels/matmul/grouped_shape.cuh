// The shape of a kernel of grouped.cuh: sizes, and the ring of stages in shared memory.
#pragma once
#include "device/warp.cuh"
#include "kernels/matmul/grouped_formats.cuh"

namespace rose::cuda {

//   Format      how weights are stored and expanded
//   tokens      N: 8 to 128
//   warpgroups  that multiply: side by side, 64 rows each, sharing the token tile; or, with tokens that stay, on
//               the same 64 rows, each a part of the columns
//   stages      depth of the ring
//   blocks      resident on a multiprocessor
template <class Format_, int tokens_, int warpgroups_, int stages_, int blocks_>
struct GroupedShape {
  using Format = Format_;
  static constexpr int kTokens = tokens_;
  static constexpr int kWarpgroups = warpgroups_;
  static constexpr int kStages = stages_;
  static constexpr int kBlocks = blocks_;

  // A quarter of the multiprocessor has 512 registers per lane, and each warpgroup a warp in every quarter.
  // Wide token tiles need more than an equal share, so there the loaders are a whole warpgroup that gives
  // its registers away.
  static constexpr bool kMoveRegisters = kTokens >= 32;
  static constexpr int kLoaders = kMoveRegisters ? 4 : 1;
  // So few tokens stay in shared memory for all of a segment's tiles, laid out there by the warpgroups themselves;
  // and each block makes the list of segments for itself. That saves two launches.
  static constexpr bool kResident = kTokens == 8;
  static constexpr int kSplit = kResident ? kWarpgroups : 1;
  static constexpr int kRowGroups = kWarpgroups / kSplit;
  static constexpr int kStageUnits = 2 * kSplit;
  static constexpr int kThreads = 128 * kWarpgroups + 32 * kLoaders;
  static constexpr int kLoaderRegisters = kWarpgroups == 2 && kBlocks == 1 ? 56 : 32;
  static constexpr int kLaunchRegisters = 512 / (kWarpgroups + 1) / kBlocks / 8 * 8;
  static constexpr int kWanted =
      (kLaunchRegisters * (kWarpgroups + 1) - kLoaderRegisters) / kWarpgroups / 8 * 8;
  static constexpr int kConsumerRegisters = kWanted < 240 ? kWanted : 240;

  static constexpr bool kScaled = is_scaled(Format::kForm);
  static constexpr int kTokenUnitBytes = kTokens * unit_bytes(Format::kForm);
  static constexpr int kRecordBytes = record_bytes(Format::kForm, kTokens);
  // A stage in shared memory: tokens, scales, weights, and its two barriers. Everything a thread needs of it
  // is at a constant distance from its start.
  static constexpr int kScalesAt = 2 * kTokenUnitBytes;
  static constexpr int kWeightsAt = kResident ? 0 : (kRecordBytes + 1023) / 1024 * 1024;
  static constexpr int kFullAt = kWeightsAt + 2 * kWarpgroups * Format::kTileBytes;
  static constexpr int kEmptyAt = kFullAt + 8;
  // The swizzle of tokens needs whole kilobytes.
  static constexpr int kStageAlign = kResident ? 128 : 1024;
  static constexpr int kStageBytes = (kEmptyAt + 8 + kStageAlign - 1) / kStageAlign * kStageAlign;
  static constexpr int kOutBytes = kWarpgroups * kTokens * 128;
  // After the ring: the sums of the parts of two tiles, and their barriers; then tokens that stay.
  static constexpr int kPartsAt = (kStages * kStageBytes + 127) / 128 * 128;
  static constexpr int kPartBytes = 128 * kTokens * 2;  // of a warpgroup
  static constexpr int kPartsBytes = kSplit > 1 ? 2 * kSplit* kPartBytes + 4 * 8 : 0;
  static constexpr int kResidentAt = (kPartsAt + kPartsBytes + 1023) / 1024 * 1024;
  static constexpr int kSharedBytes = kResidentAt + kOutBytes + 1024;
  static constexpr int shared_bytes(int units) {
    return kSharedBytes + (kResident ? (units + 1) / 2 * kRecordBytes : 0);
  }
  static_assert(kSharedBytes * kBlocks <= 227 << 10);
};

// Where the scale of a token column lies: the four columns that a thread needs out of 16 are adjacent.
__host__ __device__ constexpr int scale_slot(int column) {
  return column / 16 * 16 + column % 8 / 2 * 4 + column / 8 % 2 * 2 + column % 2;
}
// A position in the ring: a stage, and the parity of how often it has been used.
template <class S>
struct RingPosition {
  int offset = 0;  // bytes from the start of the ring
  uint32_t parity = 0;
  __device__ __forceinline__ void advance(int stages = 1) {
    offset += stages * S::kStageBytes;
    if (offset >= S::kStages * S::kStageBytes) offset -= S::kStages * S::kStageBytes, parity ^= 1;
  }
};

template <class S>
struct Ring {
  uint8_t* base;

  __device__ uint8_t* tokens(int stage) const { return base + stage; }
  __device__ uint8_t* weights(int stage, int warpgroup, int unit) const {
    return base + stage + S::kWeightsAt + (2 * warpgroup + unit) * S::Format::kTileBytes;
  }
  __device__ const float* scales(int stage) const {
    return reinterpret_cast<const float*>(base + stage + S::kScalesAt);
  }
  __device__ uint64_t* full(int stage) const {  // the bytes have landed
    return reinterpret_cast<uint64_t*>(base + stage + S::kFullAt);
  }
  __device__ uint64_t* empty(int stage) const {  // all readers are done
    return reinterpret_cast<uint64_t*>(base + stage + S::kEmptyAt);
  }
  // Sums of a warpgroup's columns, a thread's together; `which` of two tiles.
  __device__ float4* part(int which, int warpgroup, int thread) const {
    return reinterpret_cast<float4*>(base + S::kPartsAt +
                                     (which * S::kSplit + warpgroup) * S::kPartBytes) +
           thread * (S::kTokens / 8);
  }
  __device__ uint64_t* parts_full(int which) const {
    return reinterpret_cast<uint64_t*>(base + S::kPartsAt + 2 * S::kSplit * S::kPartBytes) + which;
  }
  __device__ uint64_t* parts_empty(int which) const { return parts_full(which) + 2; }
};

// How many warpgroups, stages and blocks serve a format and a width: measured.
struct GroupedSchedule {
  int warpgroups, stages, blocks;
};
template <class Format, int kTokens>
inline constexpr GroupedSchedule kGroupedSchedule = {};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedMxfp4E4m3, 8> = {1, 8, 3};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedMxfp4E4m3, 16> = {2, 8, 2};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedMxfp4E4m3, 32> = {2, 6, 2};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedMxfp4E4m3, 128> = {2, 6, 1};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedMxfp4F16, 32> = {2, 6, 1};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedMxfp4F16, 128> = {2, 4, 1};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedFp8, 32> = {1, 7, 2};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedFp8, 128> = {2, 5, 1};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedFp8Block, 16> = {2, 5, 2};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedFp8Block, 32> = {2, 4, 2};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedFp8Block, 128> = {2, 5, 1};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedBf16, 32> = {1, 7, 1};
template <>
inline constexpr GroupedSchedule kGroupedSchedule<GroupedBf16, 64> = {2, 4, 1};

template <class Format, int kTokens>
using ScheduledShape = GroupedShape<Format, kTokens, kGroupedSchedule<Format, kTokens>.warpgroups,
                                    kGroupedSchedule<Format, kTokens>.stages,
                                    kGroupedSchedule<Format, kTokens>.blocks>;

// For fewer tiles than that has blocks at once: a step of one warpgroup is a chain of waits, and so many of them
// run beside each other.
template <class Format>
using SplitShape = GroupedShape<Format, 8, 2, 8, 2>;

}  // namespace rose::cuda
