// Tensors are views: a pointer, a type and up to four row-major dimensions. They own nothing; a
// Buffer (device/buffer.h) or a mapped file does.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"

namespace rose {

enum class DType : uint8_t { f32, bf16, i32, i64, i8, u8 };

int bytes_of(DType dtype);  // of one element
const char* name_of(DType dtype);

struct Tensor {
  static constexpr int kMaxRank = 4;

  void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::array<int64_t, kMaxRank> dims = {};  // of a rank-0 tensor: none, one element

  Tensor() = default;
  Tensor(void* data, DType dtype, std::initializer_list<int64_t> dims);

  explicit operator bool() const { return data != nullptr; }
  int64_t elements() const;
  int64_t bytes() const { return elements() * bytes_of(dtype); }
  int dim(int i) const { return int(dims[size_t(i)]); }

  // The elements as T; checks that T is what the tensor holds.
  template <class T>
  T* as() const;

  Tensor rows(int64_t first, int64_t count) const;  // of the first dimension
  Tensor reshaped(std::initializer_list<int64_t> dims) const;
};

std::string show(const Tensor& tensor);  // "bf16 [4, 2880]"

// The bits of a bfloat16; arithmetic happens in float (tensor/bf16.h).
struct bf16 {
  uint16_t bits;
};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, bf16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, int8_t>)
    return DType::i8;
  else
    return DType::u8;
}

template <class T>
T* Tensor::as() const {
  ROSE_CHECK(dtype == dtype_of<T>(), "tensor: it holds %s, asked for %s", name_of(dtype),
             name_of(dtype_of<T>()));
  return static_cast<T*>(data);
}

// A dimension that the first tensor binds and the rest must agree with.
struct Dim {
  explicit Dim(const char* name, int64_t size = -1) : name(name), size(size) {}
  const char* name;
  int64_t size;
  operator int64_t() const { return size; }
};

// Checks an op's operands: shape_check("matmul", x, "x", {tokens, hidden}).
void shape_check(const char* op, const Tensor& tensor, const char* operand,
                 std::initializer_list<Dim*> dims);

}  // namespace rose
