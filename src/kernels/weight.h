// A matrix as a backend keeps it: a format (what numbers it holds) and a layout (in which order).
// Layers hand a Weight to an op and never look inside.
#pragma once
#include "tensor/tensor.h"

namespace rose {

enum class Format : uint8_t {
  bf16,       // as published
  q8,         // int8, one bf16 scale for 32 values along the input axis; meets int8 activations
  mxfp4,      // E2M1 in blocks of 32 with an E8M0 scale (tensor/mxfp4.h), as published
  mxfp4_q8,   // the same numbers, met by int8 activations
  fp8,        // E4M3, one f32 scale a row (tensor/fp8.h); may meet E4M3 activations
  mxfp4_fp8,  // the numbers of mxfp4; may meet E4M3 activations
  fp8_block,  // E4M3, one scale for 128 x 128 (tensor/fp8.h); may meet E4M3 activations
};
const char* name_of(Format format);

struct Weight {
  Format format = Format::bf16;
  int experts = 1;       // matrices that follow one another
  int rows = 0;          // outputs
  int columns = 0;       // inputs
  void* data = nullptr;  // in the layout of the backend that packed it; `weight_bytes` of it

  explicit operator bool() const { return data != nullptr; }
};

// A matrix as a checkpoint has it, in host memory, or in the device's where it was generated there.
struct RawWeight {
  enum class Kind : uint8_t {
    bf16,             // [experts, rows, columns]  bf16
    bf16_transposed,  // [experts, columns, rows]  bf16
    mxfp4,            // codes [experts, rows, columns / 2], scales [experts, rows, columns / 32]
  };
  Kind kind = Kind::bf16;
  int experts = 1;
  int rows = 0;
  int columns = 0;
  const uint8_t* values = nullptr;  // unaligned: files promise no alignment
  const uint8_t* scales = nullptr;  // of mxfp4
  bool on_device = false;
};

}  // namespace rose
