#include "kernels/generate/generate.h"

#include <algorithm>

#include "base/rng.h"
#include "device/launch.cuh"
#include "device/ptx.cuh"
#include "kernels/cuda.h"

namespace rose::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kPiece = 16;  // bytes a thread writes at a time

struct Params {
  uint8_t* to;
  int64_t bytes;
  uint64_t key;
  int64_t first;  // in bytes of what is made
  const uint16_t* table;
  int middle;
};

// Eight bytes of the stream, from byte `at` on.
template <Generate::Kind kKind>
__device__ uint64_t piece(const Params& p, int64_t at) {
  if constexpr (kKind == Generate::Kind::codes) {
    return random_bits(p.key, uint64_t(at) / 8);
  } else if constexpr (kKind == Generate::Kind::scales) {
    const uint64_t bits = random_bits(p.key, uint64_t(at) / 32) >> (at % 32 * 2);
    uint64_t scales = 0;
    for (int i = 0; i < 8; ++i) {
      const uint64_t step = bits >> (2 * i) & 3;  // 0: one below, 3: one above
      scales |= uint64_t(uint8_t(p.middle + (step + 1) / 2 - 1)) << (8 * i);
    }
    return scales;
  } else {
    const uint64_t bits = random_bits(p.key, uint64_t(at) / 8);
    uint64_t values = 0;
    for (int i = 0; i < 4; ++i) values |= uint64_t(p.table[bits >> (16 * i) & 0xffff]) << (16 * i);
    return values;
  }
}

//   grid   as many blocks as run at once, over pieces of 16 bytes
template <Generate::Kind kKind>
__global__ void __launch_bounds__(kThreads) generate_kernel(const __grid_constant__ Params p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  for (int64_t at = (int64_t(blockIdx.x) * kThreads + threadIdx.x) * kPiece; at < p.bytes;
       at += int64_t(gridDim.x) * kThreads * kPiece) {
    ulonglong2 both;
    both.x = piece<kKind>(p, p.first + at);
    both.y = piece<kKind>(p, p.first + at + 8);
    if (at + kPiece <= p.bytes) {
      *reinterpret_cast<ulonglong2*>(p.to + at) = both;
    } else {
      for (int64_t i = at; i < p.bytes; ++i)
        p.to[i] = uint8_t((i - at < 8 ? both.x : both.y) >> ((i - at) % 8 * 8));
    }
  }
}

template <Generate::Kind kKind>
void run(Stream& stream, const Params& params) {
  const int64_t blocks = (params.bytes / kPiece + kThreads) / kThreads;
  launch<generate_kernel<kKind>>(
      "generate",
      {.blocks = dim3(unsigned(std::min<int64_t>(blocks, 8 * multiprocessors()))),
       .threads = kThreads},
      stream, params);
}

}  // namespace

void generate(Stream& stream, const Generate& op) {
  ROSE_CHECK(op.first % 64 == 0 && reinterpret_cast<uintptr_t>(op.to) % kPiece == 0,
             "generate: from value %ld on, to %p", long(op.first), op.to);
  if (op.count == 0) return;
  const int64_t width = op.kind == Generate::Kind::values ? 2 : 1;
  const Params params = {.to = static_cast<uint8_t*>(op.to),
                         .bytes = op.count * width,
                         .key = op.key,
                         .first = op.first * width,
                         .table = reinterpret_cast<const uint16_t*>(op.table),
                         .middle = op.middle};
  switch (op.kind) {
    case Generate::Kind::codes: return run<Generate::Kind::codes>(stream, params);
    case Generate::Kind::scales: return run<Generate::Kind::scales>(stream, params);
    case Generate::Kind::values: return run<Generate::Kind::values>(stream, params);
  }
}

}  // namespace rose::cuda
