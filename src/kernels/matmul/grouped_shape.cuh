// The shape of a kernel of grouped.cuh: sizes, and the ring of stages in shared memory.
#pragma once
#include "device/warp.cuh"
#include "kernels/matmul/grouped_formats.cuh"

namespace rose::cuda {

//   Format      how weights are stored and expanded
//   tokens      N: 8 to 128
//   row_groups  warpgroups side by side, 64 rows each, sharing the token tile
//   stages      depth of the ring
//   blocks      resident on a multiprocessor
template <class Format_, int tokens_, int row_groups_, int stages_, int blocks_>
struct GroupedShape {
  using Format = Format_;
  static constexpr int kTokens = tokens_;
  static constexpr int kRowGroups = row_groups_;
  static constexpr int kStages = stages_;
  static constexpr int kBlocks = blocks_;

  // A quarter of the multiprocessor has 512 registers per lane, and each warpgroup a warp in every quarter.
  // Wide token tiles need more than an equal share, so there the loaders are a whole warpgroup that gives
  // its registers away.
  static constexpr bool kMoveRegisters = kTokens >= 32;
  static constexpr int kLoaders = kMoveRegisters ? 4 : 1;
  // So few tokens stay in shared memory for all of a segment's tiles, laid out there by the warpgroup itself;
  // and each block makes the list of segments for itself. That saves two launches.
  static constexpr bool kResident = kTokens == 8;
  static constexpr int kThreads = 128 * kRowGroups + 32 * kLoaders;
  static constexpr int kLoaderRegisters = kRowGroups == 2 && kBlocks == 1 ? 56 : 32;
  static constexpr int kLaunchRegisters = 512 / (kRowGroups + 1) / kBlocks / 8 * 8;
  static constexpr int kWanted =
      (kLaunchRegisters * (kRowGroups + 1) - kLoaderRegisters) / kRowGroups / 8 * 8;
  static constexpr int kConsumerRegisters = kWanted < 240 ? kWanted : 240;

  static constexpr bool kScaled = is_scaled(Format::kForm);
  static constexpr int kTokenUnitBytes = kTokens * unit_bytes(Format::kForm);
  static constexpr int kRecordBytes = record_bytes(Format::kForm, kTokens);
  // A stage in shared memory: tokens, scales, weights, and its two barriers. Everything a thread needs of it
  // is at a constant distance from its start.
  static constexpr int kScalesAt = 2 * kTokenUnitBytes;
  static constexpr int kWeightsAt = kResident ? 0 : (kRecordBytes + 1023) / 1024 * 1024;
  static constexpr int kFullAt = kWeightsAt + 2 * kRowGroups * Format::kTileBytes;
  static constexpr int kEmptyAt = kFullAt + 8;
  // The swizzle of tokens needs whole kilobytes.
  static constexpr int kStageAlign = kResident ? 128 : 1024;
  static constexpr int kStageBytes = (kEmptyAt + 8 + kStageAlign - 1) / kStageAlign * kStageAlign;
  static constexpr int kOutBytes = kRowGroups * kTokens * 128;
  static constexpr int kResidentAt =
      (kStages * kStageBytes + 1023) / 1024 * 1024;  // after the ring
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
  __device__ uint8_t* weights(int stage, int row_group, int unit) const {
    return base + stage + S::kWeightsAt + (2 * row_group + unit) * S::Format::kTileBytes;
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
};

// How many row groups, stages and blocks serve a format and a width: measured.
struct GroupedSchedule {
  int row_groups, stages, blocks;
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
using ScheduledShape = GroupedShape<Format, kTokens, kGroupedSchedule<Format, kTokens>.row_groups,
                                    kGroupedSchedule<Format, kTokens>.stages,
                                    kGroupedSchedule<Format, kTokens>.blocks>;

}  // namespace rose::cuda
