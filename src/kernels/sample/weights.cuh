// Weights of tokens as whole numbers, and which of them a filter keeps. A weight is a multiple of 2^-40 up to 1,
// so that sums are exact: atomics in any order give the same, a row drawn twice gives the same token, and a walk
// ends where the total said it would. It is held as a code of 29 bits, ordered like the weights: the float's
// own bits, less those of 2^-41. Nothing is ever sorted: a filter finds the code of the last token that it keeps, a few
// bits at a time, from histograms. docs/kernels/sample.md
#pragma once
#include "kernels/sample/share.cuh"

namespace rose::cuda {

constexpr uint32_t kLeast = 0x00800000;     // 2^-40; 0 is no weight
constexpr uint32_t kGreatest = 0x14800000;  // 1
constexpr uint32_t kNothing = 0x2b000000;   // the bits of 2^-41

__device__ inline uint32_t code_of(float weight) {
  // Rounded to a multiple of 2^-40: those from 2^-17 up are.
  if (weight < 0x1p-17f) weight = __fsub_rn(__fadd_rn(weight, 0x1p-17f), 0x1p-17f);
  const uint32_t bits = __float_as_uint(weight);
  return bits > kNothing ? bits - kNothing : 0;
}

// The 24 bits that stand for the weight, in units that all codes of the same exponent share.
constexpr uint32_t kFraction = 0x007fffff, kOne = 0x00800000;
__device__ inline uint32_t digits(uint32_t code) { return and_or(code, kFraction, kOne); }

// A sum of digits as multiples of 2^-40: the shift leaves none of them out.
__device__ inline uint64_t whole(uint64_t digits, uint32_t code) {
  return digits << 17 >> (41 - (code >> 23));
}
__device__ inline uint64_t whole(uint32_t code) { return whole(digits(code), code); }

// Tokens with a larger code, and of those with the same code the first `equal` in the order of ids.
struct Cut {
  uint32_t code = 0;
  uint32_t equal = 0;
};

template <int kBlocks>
__device__ uint64_t kept_by(const Cut& cut, const Share& share, Cluster<kBlocks>& cluster) {
  uint64_t above = 0;
  share.each([&](float value, int) {
    const uint32_t code = __float_as_uint(value);
    if (code > cut.code) above += whole(code);
  });
  return cluster.total(above) + cut.equal * whole(cut.code);
}

enum class Measure { count, weight };

// Keeps the largest weights until they measure this part of all, or `most`. At least one token has a weight.
//
// A histogram has a column for each lane: no two meet, however equal the weights. 32 bits hold the digits of 256
// numbers, so columns are emptied when a thread has added four quads.
template <int kBlocks>
__device__ Cut find_cut(const Share& share, Cluster<kBlocks>& cluster, Measure measure, double part,
                        uint64_t most) {
  constexpr int kFirst = 23;  // bits that the first pass leaves: it finds the exponent
  constexpr int kBits = 6;    // that each later one finds
  constexpr int kBins = 1 << kBits, kTeam = kThreads / kBins;  // threads that look after a bin
  constexpr int kQuads = 4 * kWarp;
  static_assert((kGreatest - kLeast) >> kFirst < kBins && kBins == 2 * kWarp);
  static_assert(4 * kQuads * kWarps <= 256 * kWarp);
  __shared__ uint32_t histogram[kBins][kWarp];
  __shared__ alignas(ulonglong2) unsigned long long of_block[2][kBins];  // from the greatest down
  __shared__ unsigned long long left;  // of what is wanted, in the bin that was found
  __shared__ uint32_t found;
  const int lane = threadIdx.x % kWarp, bin = threadIdx.x / kTeam, member = threadIdx.x % kTeam;
  const bool counts = measure == Measure::count;
  const uint32_t fraction = counts ? 0 : kFraction, one = counts ? 1 : kOne;

  for (int i = threadIdx.x; i < kBins * kWarp; i += kThreads) histogram[0][i] = 0;
  uint32_t low = kLeast, width = kGreatest - kLeast + 1;  // of the codes in question
  uint64_t target = 0;                                    // what they have to give
  for (int shift = kFirst;; shift = max(shift - kBits, 0)) {
    uint64_t sum = 0;
    for (int from = 0; from < share.run; from += kQuads) {
      __syncthreads();  // the columns are empty
      share.each_quad(
          share.begin + from, min(share.end, share.begin + from + kQuads), [&](float4 x, int) {
            const uint32_t codes[] = {__float_as_uint(x.x), __float_as_uint(x.y),
                                      __float_as_uint(x.z), __float_as_uint(x.w)};
            if (codes[0] - low >= width && codes[1] - low >= width && codes[2] - low >= width &&
                codes[3] - low >= width)
              return;  // as most do, but in the first pass
#pragma unroll
            for (const uint32_t code : codes)
              if (code - low < width)
                atomicAdd(&histogram[(code - low) >> shift][lane], and_or(code, fraction, one));
          });
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kWarp / kTeam; ++i) {
        uint32_t& column = histogram[bin][member + (bin + i) % (kWarp / kTeam) * kTeam];
        sum += column;  // (bin + i: no bank twice)
        column = 0;
      }
    }
    sum = reduce_lanes<kTeam>(sum, [](uint64_t a, uint64_t b) { return a + b; });
    auto& told = of_block[cluster.turn];
    if (member == 0)
      told[kBins - 1 - bin] =
          counts ? sum : whole(sum, low + (shift == kFirst ? uint32_t(bin) << kFirst : 0));
    cluster.meet();
    if (threadIdx.x < kWarp) {  // two bins a lane
      uint64_t a = 0, b = 0;
#pragma unroll 8
      for (int block = 0; block < kBlocks; ++block) {
        const ulonglong2 two =
            cluster.of(reinterpret_cast<const ulonglong2&>(told[2 * lane]), block);
        a += two.x, b += two.y;
      }
      uint64_t up_to = a + b;
#pragma unroll
      for (int step = 1; step < kWarp; step *= 2) {
        const uint64_t other = __shfl_up_sync(~0u, up_to, step);
        if (lane >= step) up_to += other;
      }
      if (shift == kFirst) {
        const uint64_t all = __shfl_sync(~0u, up_to, kWarp - 1);
        target = max(min(uint64_t(part * double(all)), most), uint64_t(1));
      }
      const uint64_t before = up_to - a - b;
      if (before < target && target <= up_to) {  // one lane
        const bool second = target - before > a;
        found = low + (uint32_t(kBins - 1 - 2 * lane - second) << shift);
        left = target - before - (second ? a : 0);
      }
    }
    __syncthreads();
    low = found, target = left;
    if (shift == 0) break;
    width = 1u << shift;
  }
  const uint64_t each = counts ? 1 : whole(low);
  return {low, uint32_t((target + each - 1) / each)};
}

}  // namespace rose::cuda
