#include "kernels/generate/generate.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/ref.h"

namespace rose::ref {

namespace {

// A thread's least piece: a whole number of random words of any kind.
constexpr int64_t kGrain = 1 << 14;

void codes(const Generate& op, int64_t begin, int64_t end) {
  auto* to = static_cast<uint8_t*>(op.to);
  for (int64_t i = begin; i < end; i += 8) {
    const uint64_t bits = random_bits(op.key, uint64_t(op.first + i) / 8);
    std::memcpy(to + i, &bits, size_t(std::min(end - i, int64_t(8))));
  }
}

void scales(const Generate& op, int64_t begin, int64_t end) {
  auto* to = static_cast<uint8_t*>(op.to);
  uint64_t bits = 0;
  for (int64_t i = begin; i < end; ++i) {
    bits = i % 32 == 0 ? random_bits(op.key, uint64_t(op.first + i) / 32) : bits >> 2;
    to[i] = uint8_t(op.middle + "\0\1\1\2"[bits & 3] - 1);
  }
}

void values(const Generate& op, int64_t begin, int64_t end) {
  auto* to = static_cast<bf16*>(op.to);
  for (int64_t i = begin; i < end; i += 4) {
    const uint64_t bits = random_bits(op.key, uint64_t(op.first + i) / 4);
    for (int64_t j = 0; j < std::min(end - i, int64_t(4)); ++j)
      to[i + j] = op.table[bits >> (16 * j) & 0xffff];
  }
}

}  // namespace

void generate(Stream& stream, const Generate& op) {
  ROSE_CHECK(op.first % 64 == 0, "generate: from value %ld on", long(op.first));
  stream.threads->parallel_for(op.count, kGrain, [&](int64_t begin, int64_t end) {
    switch (op.kind) {
      case Generate::Kind::codes: return codes(op, begin, end);
      case Generate::Kind::scales: return scales(op, begin, end);
      case Generate::Kind::values: return values(op, begin, end);
    }
  });
}

}  // namespace rose::ref
