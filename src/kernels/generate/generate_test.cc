#include "kernels/generate/generate.h"

#include "base/rng.h"
#include "device/buffer.h"
#include "testing/rig.h"

namespace rose {
namespace {

using namespace testing;

std::vector<uint8_t> generated(const Ops& ops, Generate op, int64_t bytes) {
  Rig rig(ops);
  const Buffer memory = std::move(*Buffer::allocate(*ops.device, bytes + 64));
  const Buffer table = std::move(*Buffer::allocate(*ops.device, Generate::kTable * 2));
  std::vector<uint16_t> entries(Generate::kTable);
  for (size_t i = 0; i < entries.size(); ++i) entries[i] = uint16_t(i * 7 + 3);
  ops.device->upload(rig.stream(), table.data(), entries.data(), table.bytes());
  const std::vector<uint8_t> poison(size_t(bytes + 64), 0xa5);
  ops.device->upload(rig.stream(), memory.data(), poison.data(), int64_t(poison.size()));
  op.to = memory.data();
  op.table = static_cast<const bf16*>(table.data());
  rig.run(ops.generate, op);
  std::vector<uint8_t> all(poison.size());
  ops.device->download(rig.stream(), all.data(), memory.data(), int64_t(all.size()));
  ops.device->synchronize(rig.stream());
  for (size_t i = size_t(bytes); i < all.size(); ++i) EXPECT_EQ(all[i], 0xa5) << "past the end";
  all.resize(size_t(bytes));
  return all;
}

TEST(Generate, by_hand) {
  const uint64_t word = random_bits(5, 8);
  const auto codes = generated(reference_ops(), {.count = 3, .key = 5, .first = 64}, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(codes[size_t(i)], uint8_t(word >> (8 * i)));
  const auto scales = generated(
      reference_ops(),
      {.kind = Generate::Kind::scales, .count = 32, .key = 5, .first = 256, .middle = 100}, 32);
  for (int i = 0; i < 32; ++i) {
    const int two = int(word >> (2 * i) & 3);
    EXPECT_EQ(scales[size_t(i)], two == 0 ? 99 : two == 3 ? 101 : 100);
  }
}

// The same bits, whatever makes them: whole words, ragged ends, more than a thread's piece.
TEST(Generate, backends_agree_with_the_reference) {
  for (const Ops* ops : backends())
    for (const auto kind : {Generate::Kind::codes, Generate::Kind::scales, Generate::Kind::values})
      for (const int64_t count : {1, 8, 31, 1000, 70001})
        for (const int64_t first : {0, 64, 6400}) {
          SCOPED_TRACE(
              strf("%s kind %d, %ld from %ld", ops->name, int(kind), long(count), long(first)));
          const Generate op = {
              .kind = kind, .count = count, .key = 9, .first = first, .middle = 120};
          const int64_t bytes = kind == Generate::Kind::values ? 2 * count : count;
          EXPECT_EQ(generated(*ops, op, bytes), generated(reference_ops(), op, bytes));
        }
}

}  // namespace
}  // namespace rose
