// Random numbers for the weights that no checkpoint gives. Byte i of the codes, scale i and value i follow
// from the key and i alone, so that every backend makes the same bits.
#pragma once
#include <span>

#include "device/device.h"
#include "tensor/tensor.h"

namespace rose {

struct Generate {
  enum class Kind : uint8_t {
    codes,   // bytes of all kinds equally often, eight a random word
    scales,  // bytes one below, at (twice as often) and one above `middle`, 32 a random word
    values,  // bf16, each the entry of `table` that 16 random bits name, four a random word
  };
  static constexpr int kTable = 1 << 16;

  Kind kind = Kind::codes;
  void* to = nullptr;  // in the device's memory, aligned to 16
  int64_t count = 0;   // bytes, scales or values
  uint64_t key = 0;
  int64_t first = 0;            // of the stream: a multiple of 64
  uint8_t middle = 0;           // of scales
  const bf16* table = nullptr;  // [kTable], in the device's memory
};

}  // namespace rose
