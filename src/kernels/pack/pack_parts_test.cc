#include <gtest/gtest.h>

#include "base/rng.h"
#include "device/buffer.h"
#include "kernels/ops.h"
#include "kernels/pack/pack.h"

namespace rose {
namespace {

// Some raw weight whose values are finite in every kind.
struct Raw {
  std::vector<uint8_t> values, scales;
  RawWeight weight;

  Raw(RawWeight::Kind kind, int experts, int rows, int columns)
      : weight{.kind = kind, .experts = experts, .rows = rows, .columns = columns} {
    const bool mxfp4 = kind == RawWeight::Kind::mxfp4;
    const size_t count = size_t(experts) * size_t(rows) * size_t(columns);
    values.resize(mxfp4 ? count / 2 : count * 2);
    scales.resize(mxfp4 ? count / 32 : 0);
    for (size_t i = 0; i < values.size(); ++i) values[i] = uint8_t(random_bits(1, i));
    if (!mxfp4)  // an exponent near 1: 0x3e or 0x3f, and the sign
      for (size_t i = 1; i < values.size(); i += 2) values[i] = (values[i] & 0x81) | 0x3e;
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = uint8_t(120 + random_bits(2, i) % 4);
    weight.values = values.data();
    weight.scales = mxfp4 ? scales.data() : nullptr;
  }

  // One of its matrices alone.
  RawWeight expert(int index) const {
    RawWeight one = weight;
    one.experts = 1;
    one.values += size_t(index) * (values.size() / size_t(weight.experts));
    if (one.scales) one.scales += size_t(index) * (scales.size() / size_t(weight.experts));
    return one;
  }
};

TEST(Pack, experts_packed_one_by_one_are_the_experts_packed_together) {
  ThreadPool threads(2);
  for (const Ops* ops : available_ops()) {
    Stream stream{.device = ops->device, .threads = &threads, .scratch = nullptr};
    for (const auto kind :
         {RawWeight::Kind::bf16, RawWeight::Kind::bf16_transposed, RawWeight::Kind::mxfp4}) {
      for (const auto format : {Format::bf16, Format::q8, Format::mxfp4, Format::mxfp4_q8,
                                Format::fp8, Format::mxfp4_fp8, Format::fp8_block}) {
        if (!packable(kind, format) || !keeps(*ops, format)) continue;
        SCOPED_TRACE(std::string(ops->name) + ", kind " + std::to_string(int(kind)) + " into " +
                     name_of(format));
        // Rows that no tile divides: padding must not reach the next expert.
        const Raw raw(kind, 3, 37, 96);
        Weight to{.format = format, .experts = 3, .rows = 37, .columns = 96};
        const int64_t bytes = ops->weight_bytes(format, 3, 37, 96);
        std::vector<std::vector<uint8_t>> packed;
        for (const bool together : {true, false}) {
          Buffer buffer = *Buffer::allocate(*ops->device, bytes);
          ops->device->zero(stream, buffer.data(), bytes);
          to.data = buffer.data();
          if (together) {
            ops->pack(stream, {.to = to, .from = raw.weight});
          } else {
            for (const int expert : {1, 0, 2})
              ops->pack(stream, {.to = to, .from = raw.expert(expert), .first_expert = expert});
          }
          packed.emplace_back(size_t(bytes));
          ops->device->download(stream, packed.back().data(), buffer.data(), bytes);
          ops->device->synchronize(stream);
        }
        EXPECT_EQ(packed[0], packed[1]);
        EXPECT_NE(packed[0], std::vector<uint8_t>(size_t(bytes)));
      }
    }
  }
}

}  // namespace
}  // namespace rose
