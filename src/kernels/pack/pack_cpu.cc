// Checkpoint rows into groups of 16 (cpu/layout.h), a group at a time, all threads at once.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/layout.h"
#include "kernels/pack/pack.h"
#include "tensor/bf16.h"

namespace rose::cpu {

namespace {

// Sixteen rows of one of the checkpoint's matrices; those past its last are zero.
class Rows {
 public:
  explicit Rows(const Kernels& kernels, const RawWeight& from)
      : kernels_(kernels),
        from_(from),
        bits_(size_t(from.columns) * kGroup),
        values_(size_t(from.columns) * kGroup) {}

  // Values as f32, [16, columns].
  const float* read(int expert, int first_row) {
    const int64_t columns = from_.columns, matrix = int64_t(expert) * from_.rows * columns;
    const int rows = std::min(kGroup, from_.rows - first_row);
    std::fill(values_.begin(), values_.end(), 0.0f);
    switch (from_.kind) {
      case RawWeight::Kind::bf16:  // copied first: a file's bytes may stand at odd addresses
        std::memcpy(bits_.data(), from_.values + (matrix + first_row * columns) * 2,
                    size_t(rows * columns * 2));
        kernels_.convert({bits_.data(), true}, int(rows * columns), {values_.data(), false});
        break;
      case RawWeight::Kind::bf16_transposed:
        for (int64_t c = 0; c < columns; ++c) {
          uint16_t bits[kGroup];
          std::memcpy(bits, from_.values + (matrix + c * from_.rows + first_row) * 2,
                      size_t(rows) * 2);
          for (int r = 0; r < rows; ++r) values_[size_t(r * columns + c)] = to_f32(bf16{bits[r]});
        }
        break;
      case RawWeight::Kind::mxfp4:
        for (int r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c) {
            const int64_t block = (matrix + (first_row + r) * columns + c) / kMxBlock;
            values_[size_t(r * columns + c)] = mxfp4_value(from_.values + block * kMxBlockBytes,
                                                           from_.scales[block], int(c % kMxBlock));
          }
        break;
    }
    return values_.data();
  }

 private:
  const Kernels& kernels_;
  const RawWeight& from_;
  std::vector<uint16_t> bits_;
  std::vector<float> values_;
};

void pack_bf16(const float* values, int columns, uint8_t* group) {
  for (int r = 0; r < kGroup; ++r)
    for (int c = 0; c < columns; ++c) {
      const uint16_t bits = to_bf16(values[int64_t(r) * columns + c]).bits;
      std::memcpy(group + (c / 2 * kGroup + r) * 4 + c % 2 * 2, &bits, 2);
    }
}

void pack_q8(const Kernels& kernels, const float* values, const GroupLayout& at, int columns,
             uint8_t* group) {
  std::vector<int8_t> codes(static_cast<size_t>(columns));
  std::vector<uint16_t> scales(static_cast<size_t>(columns / kBlock));
  for (int r = 0; r < kGroup; ++r) {
    kernels.quantise_weights(values + int64_t(r) * columns, columns, codes.data(), scales.data());
    for (size_t block = 0; block < scales.size(); ++block)
      std::memcpy(group + (block * kGroup + size_t(r)) * 2, &scales[block], 2);
    for (int quad = 0; quad < columns / 4; ++quad) {
      uint32_t four;
      std::memcpy(&four, &codes[size_t(quad) * 4], 4);
      four ^= 0x80808080;  // each + 128
      std::memcpy(group + at.values_at + (int64_t(quad) * kGroup + r) * 4, &four, 4);
    }
  }
}

// Two chunks at once. Of each, eight codes e0…e7 from the lowest nibble up, to e0 e4 e1 e5 e2 e6 e3 e7.
uint64_t reorder(uint64_t codes) {
  const uint64_t bytes = (codes ^ (codes >> 8)) & 0x0000ff000000ff00;
  codes ^= bytes ^ (bytes << 8);
  const uint64_t nibbles = (codes ^ (codes >> 4)) & 0x00f000f000f000f0;
  return codes ^ nibbles ^ (nibbles << 4);
}

void pack_mxfp4(const RawWeight& from, int expert, int first_row, const GroupLayout& at,
                uint8_t* group) {
  const int64_t blocks = from.columns / kBlock;
  const int rows = std::min(kGroup, from.rows - first_row);
  for (int r = 0; r < rows; ++r) {
    const int64_t first = (int64_t(expert) * from.rows + first_row + r) * blocks;
    for (int64_t block = 0; block < blocks; ++block) {
      group[block * kGroup + r] = from.scales[first + block];
      uint8_t* out = group + at.values_at + block * at.value_bytes + r * 4;
      for (int half = 0; half < 2; ++half) {
        uint64_t codes;
        std::memcpy(&codes, from.values + (first + block) * kMxBlockBytes + half * 8, 8);
        codes = reorder(codes);
        std::memcpy(out + half * 128, &codes, 4);
        codes >>= 32;
        std::memcpy(out + half * 128 + 64, &codes, 4);
      }
    }
  }
}

}  // namespace

int64_t weight_bytes(Format format, int experts, int rows, int columns) {
  ROSE_CHECK(format == Format::bf16 || columns % kBlock == 0,
             "weight_bytes: %d columns in %s, wanted a multiple of %d", columns, name_of(format),
             kBlock);
  return experts * (groups_of(rows) * GroupLayout(format, columns).group_bytes);
}

void pack(const Kernels& kernels, Stream& stream, const Pack& op) {
  const Weight& to = op.to;
  const RawWeight& from = op.from;
  ROSE_CHECK(packable(from.kind, to.format), "pack: a bf16 matrix into %s", name_of(to.format));
  ROSE_CHECK(to.rows == from.rows && to.columns == from.columns && op.first_expert >= 0 &&
                 op.first_expert + from.experts <= to.experts,
             "pack: [%d, %d, %d] into [%d, %d, %d] from expert %d on", from.experts, from.rows,
             from.columns, to.experts, to.rows, to.columns, op.first_expert);
  const GroupLayout at(to.format, to.columns);
  const int64_t groups = groups_of(to.rows);
  uint8_t* data = static_cast<uint8_t*>(to.data) + op.first_expert * groups * at.group_bytes;
  const bool as_it_is = to.format == Format::mxfp4 || to.format == Format::mxfp4_q8;

  stream.threads->parallel_for(from.experts * groups, 1, [&](int64_t begin, int64_t end) {
    Rows rows(kernels, from);
    for (int64_t i = begin; i < end; ++i) {
      const int expert = int(i / groups), first_row = int(i % groups) * kGroup;
      uint8_t* group = data + i * at.group_bytes;
      std::memset(group, 0, size_t(at.group_bytes));
      if (as_it_is) {
        pack_mxfp4(from, expert, first_row, at, group);
      } else if (to.format == Format::bf16) {
        pack_bf16(rows.read(expert, first_row), to.columns, group);
      } else {
        pack_q8(kernels, rows.read(expert, first_row), at, to.columns, group);
      }
    }
  });
}

}  // namespace rose::cpu
