// The reference's layout of a weight, from both sides: written by pack, read by read_rows.
//
//   | values  [experts, rows, columns], as in RawWeight | scales, one a block |
//   bf16: bf16, no scales    q8: int8, f32    mxfp4, mxfp4_q8, mxfp4_fp8: codes, two a byte, and E8M0 bytes
//   fp8: E4M3, f32 (one a row)    fp8_block: E4M3, f32 (one for 128 columns of a row, its block's)
#include "kernels/pack/pack.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/ref.h"
#include "kernels/ref_math.h"
#include "tensor/fp8.h"
#include "tensor/mxfp4.h"
#include "tensor/q8.h"

namespace rose {

static_assert(kMxBlock == kQ8Block, "an mxfp4 block meets one block of int8 activations");

const char* name_of(Format format) {
  constexpr const char* kNames[] = {"bf16", "q8",        "mxfp4",    "mxfp4_q8",
                                    "fp8",  "mxfp4_fp8", "fp8_block"};
  return kNames[int(format)];
}

bool packable(RawWeight::Kind from, Format to) {
  return from == RawWeight::Kind::mxfp4 || to == Format::bf16 || to == Format::q8 ||
         to == Format::fp8 || to == Format::fp8_block;
}

namespace ref {

namespace {

bool is_mxfp4(Format format) {
  return format == Format::mxfp4 || format == Format::mxfp4_q8 || format == Format::mxfp4_fp8;
}
bool meets_int8(Format format) { return format == Format::q8 || format == Format::mxfp4_q8; }

void check_columns(const char* op, Format format, int columns) {
  ROSE_CHECK(format == Format::bf16 || format == Format::fp8 || format == Format::fp8_block ||
                 columns % kQ8Block == 0,
             "%s: %d columns in %s, wanted a multiple of %d", op, columns, name_of(format),
             kQ8Block);
}

// Where the parts of a packed matrix begin, in rows of all experts together.
struct Layout {
  int64_t row_values = 0;  // bytes of a row's values
  int64_t row_scales = 0;  // bytes of its scales
  int64_t scales;          // where they begin
  int64_t bytes;

  Layout(Format format, int experts, int rows, int columns) {
    const int64_t blocks = columns / kQ8Block;
    switch (format) {
      case Format::bf16: row_values = int64_t(columns) * 2, row_scales = 0; break;
      case Format::q8: row_values = columns, row_scales = blocks * 4; break;
      case Format::fp8: row_values = columns, row_scales = 4; break;
      case Format::fp8_block:
        row_values = columns, row_scales = (columns + kFp8Block - 1) / kFp8Block * 4;
        break;
      case Format::mxfp4:
      case Format::mxfp4_q8:
      case Format::mxfp4_fp8: row_values = columns / 2, row_scales = blocks; break;
    }
    scales = (int64_t(experts) * rows * row_values + 3) / 4 * 4;  // f32 scales are aligned
    bytes = scales + int64_t(experts) * rows * row_scales;
  }
};

uint16_t bf16_bits_at(const uint8_t* bytes, int64_t index) {
  uint16_t bits;
  std::memcpy(&bits, bytes + index * 2, 2);
  return bits;
}

float raw_value(const RawWeight& raw, int expert, int row, int column) {
  const int64_t matrix = int64_t(expert) * raw.rows * raw.columns;
  switch (raw.kind) {
    case RawWeight::Kind::bf16:
      return to_f32(bf16{bf16_bits_at(raw.values, matrix + int64_t(row) * raw.columns + column)});
    case RawWeight::Kind::bf16_transposed:
      return to_f32(bf16{bf16_bits_at(raw.values, matrix + int64_t(column) * raw.rows + row)});
    case RawWeight::Kind::mxfp4: break;
  }
  const int64_t block =
      (int64_t(expert) * raw.rows + row) * (raw.columns / kMxBlock) + column / kMxBlock;
  return mxfp4_value(raw.values + block * kMxBlockBytes, raw.scales[block], column % kMxBlock);
}

// Rows [row, row + rows) of one expert, at most kFp8Block of them, into blocks; the MXFP4 blocks that lost bits.
int64_t pack_fp8_blocks(const RawWeight& from, int expert, int row, int rows, const Layout& at,
                        uint8_t* values, uint8_t* scales) {
  int64_t inexact = 0;
  for (int first = 0; first < from.columns; first += kFp8Block) {
    const int last = std::min(first + kFp8Block, from.columns);
    float most = 0;
    for (int r = row; r < row + rows; ++r)
      for (int c = first; c < last; ++c)
        most = std::max(most, std::fabs(raw_value(from, expert, r, c)));
    const float scale = fp8_block_scale(most);
    for (int r = row; r < row + rows; ++r) {
      const int64_t i = int64_t(expert) * from.rows + r;
      bool lost = false;
      for (int c = first; c < last; ++c) {
        const float value = raw_value(from, expert, r, c);
        const uint8_t code = to_e4m3(value / scale);
        values[i * at.row_values + c] = code;
        lost = lost || e4m3_to_f32(code) * scale != value;
        if ((c + 1) % kMxBlock == 0) inexact += std::exchange(lost, false);
      }
      std::memcpy(scales + i * at.row_scales + first / kFp8Block * 4, &scale, 4);
    }
  }
  return from.kind == RawWeight::Kind::mxfp4 ? inexact : 0;
}

}  // namespace

int64_t weight_bytes(Format format, int experts, int rows, int columns) {
  check_columns("weight_bytes", format, columns);
  return Layout(format, experts, rows, columns).bytes;
}

void pack(Stream& stream, const Pack& op) {
  const Weight& to = op.to;
  const RawWeight& from = op.from;
  ROSE_CHECK(packable(from.kind, to.format), "pack: a bf16 matrix into %s", name_of(to.format));
  ROSE_CHECK(to.rows == from.rows && to.columns == from.columns && op.first_expert >= 0 &&
                 op.first_expert + from.experts <= to.experts,
             "pack: [%d, %d, %d] into [%d, %d, %d] from expert %d on", from.experts, from.rows,
             from.columns, to.experts, to.rows, to.columns, op.first_expert);
  check_columns("pack", to.format, to.columns);
  const Layout at(to.format, to.experts, to.rows, to.columns);
  const int64_t first_row = int64_t(op.first_expert) * to.rows;
  uint8_t* values = static_cast<uint8_t*>(to.data) + first_row * at.row_values;
  uint8_t* scales = static_cast<uint8_t*>(to.data) + at.scales + first_row * at.row_scales;

  if (to.format == Format::fp8_block) {
    const int blocks = (to.rows + kFp8Block - 1) / kFp8Block;
    std::atomic<int64_t> inexact = 0;
    stream.threads->parallel_for(
        int64_t(from.experts) * blocks, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int row = int(i % blocks) * kFp8Block;
            inexact += pack_fp8_blocks(from, int(i / blocks), row,
                                       std::min(kFp8Block, to.rows - row), at, values, scales);
          }
        });
    if (op.inexact) *op.inexact += inexact;
    return;
  }
  stream.threads->parallel_for(int64_t(from.experts) * to.rows, 1, [&](int64_t begin, int64_t end) {
    if (is_mxfp4(to.format)) {  // as published
      std::memcpy(values + begin * at.row_values, from.values + begin * at.row_values,
                  size_t((end - begin) * at.row_values));
      std::memcpy(scales + begin * at.row_scales, from.scales + begin * at.row_scales,
                  size_t((end - begin) * at.row_scales));
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      const int expert = int(i / to.rows), row = int(i % to.rows);
      if (to.format == Format::bf16) {
        bf16* out = reinterpret_cast<bf16*>(values + i * at.row_values);
        for (int c = 0; c < to.columns; ++c) out[c] = to_bf16(raw_value(from, expert, row, c));
        continue;
      }
      if (to.format == Format::fp8) {
        float most = 0;
        for (int c = 0; c < to.columns; ++c)
          most = std::max(most, std::fabs(raw_value(from, expert, row, c)));
        const float scale = most == 0 ? 1 : most / kLargestE4m3;
        for (int c = 0; c < to.columns; ++c)
          values[i * at.row_values + c] = to_e4m3(raw_value(from, expert, row, c) / scale);
        std::memcpy(scales + i * at.row_scales, &scale, 4);
        continue;
      }
      for (int block = 0; block < to.columns / kQ8Block; ++block) {
        float x[kQ8Block];
        int8_t codes[kQ8Block];
        for (int c = 0; c < kQ8Block; ++c)
          x[c] = raw_value(from, expert, row, block * kQ8Block + c);
        const float scale = quantise_q8(x, codes, Q8Scale::bf16_up);
        std::memcpy(values + i * at.row_values + block * kQ8Block, codes, kQ8Block);
        std::memcpy(scales + i * at.row_scales + block * 4, &scale, 4);
      }
    }
  });
}

void read_rows(const Weight& weight, int expert, int row, Lanes* w) {
  const Layout at(weight.format, weight.experts, weight.rows, weight.columns);
  const uint8_t* data = static_cast<const uint8_t*>(weight.data);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (row + lane >= weight.rows) {
      for (int c = 0; c < weight.columns; ++c) w[c].at[lane] = 0;
      continue;
    }
    const int64_t i = int64_t(expert) * weight.rows + row + lane;
    const uint8_t* values = data + i * at.row_values;
    const uint8_t* scales = data + at.scales + i * at.row_scales;
    if (weight.format == Format::bf16) {
      for (int c = 0; c < weight.columns; ++c)
        w[c].at[lane] = to_f32(reinterpret_cast<const bf16*>(values)[c]);
      continue;
    }
    if (weight.format == Format::fp8) {
      const double scale = *reinterpret_cast<const float*>(scales);
      for (int c = 0; c < weight.columns; ++c) w[c].at[lane] = scale * e4m3_to_f32(values[c]);
      continue;
    }
    if (weight.format == Format::fp8_block) {
      for (int c = 0; c < weight.columns; ++c)
        w[c].at[lane] =
            double(reinterpret_cast<const float*>(scales)[c / kFp8Block]) * e4m3_to_f32(values[c]);
      continue;
    }
    for (int block = 0; block < weight.columns / kQ8Block; ++block) {
      Lanes* out = w + block * kQ8Block;
      if (is_mxfp4(weight.format)) {
        const double scale = e8m0_to_f32(scales[block]);
        const uint8_t* codes = values + block * kMxBlockBytes;
        for (int c = 0; c < kMxBlock; ++c)
          out[c].at[lane] = scale * kE2M1[c % 2 ? codes[c / 2] >> 4 : codes[c / 2] & 15];
      } else {
        const double scale = reinterpret_cast<const float*>(scales)[block];
        const int8_t* codes = reinterpret_cast<const int8_t*>(values) + block * kQ8Block;
        for (int c = 0; c < kQ8Block; ++c) out[c].at[lane] = scale * codes[c];
      }
    }
  }
}

template <class T>
void read_inputs(Format met, const T* x, int columns, double* out) {
  if (!meets_int8(met)) {
    for (int c = 0; c < columns; ++c) out[c] = to_f32(x[c]);
    return;
  }
  check_columns("matmul", met, columns);
  for (int first = 0; first < columns; first += kQ8Block) {
    float block[kQ8Block];
    int8_t codes[kQ8Block];
    for (int c = 0; c < kQ8Block; ++c) block[c] = to_f32(x[first + c]);
    const double scale = quantise_q8(block, codes);
    for (int c = 0; c < kQ8Block; ++c) out[first + c] = scale * codes[c];
  }
}

template void read_inputs(Format, const float*, int, double*);
template void read_inputs(Format, const bf16*, int, double*);

std::vector<double> read_inputs(Format met, const Tensor& x) {
  std::vector<double> out(size_t(x.elements()));
  with_type_of(x, "matmul", [&]<class T>(T) {
    for (int64_t row = 0; row < x.dims[0]; ++row)
      read_inputs(met, x.as<T>() + row * x.dims[1], x.dim(1), out.data() + row * x.dims[1]);
  });
  return out;
}

}  // namespace ref

}  // namespace rose
