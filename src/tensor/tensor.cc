#include "tensor/tensor.h"

namespace rose {

namespace {
struct DTypeRow {
  const char* name;
  int bytes;
};
constexpr DTypeRow kDTypes[] = {{"f32", 4}, {"bf16", 2}, {"i32", 4},
                                {"i64", 8}, {"i8", 1},   {"u8", 1}};
}  // namespace

int bytes_of(DType dtype) { return kDTypes[int(dtype)].bytes; }
const char* name_of(DType dtype) { return kDTypes[int(dtype)].name; }

Tensor::Tensor(void* data, DType dtype, std::initializer_list<int64_t> shape)
    : data(data), dtype(dtype), rank(int(shape.size())) {
  ROSE_CHECK(rank <= kMaxRank, "tensor: rank %d, at most %d", rank, kMaxRank);
  int i = 0;
  for (const int64_t dim : shape) dims[size_t(i++)] = dim;
}

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) count *= dims[size_t(i)];
  return count;
}

Tensor Tensor::rows(int64_t first, int64_t count) const {
  ROSE_CHECK(rank > 0 && first >= 0 && count >= 0 && first + count <= dims[0],
             "tensor: rows %ld..%ld of %s", long(first), long(first + count), show(*this).c_str());
  Tensor part = *this;
  const int64_t row_bytes = dims[0] > 0 ? bytes() / dims[0] : 0;
  part.data = static_cast<char*>(data) + first * row_bytes;
  part.dims[0] = count;
  return part;
}

Tensor Tensor::reshaped(std::initializer_list<int64_t> shape) const {
  const Tensor view(data, dtype, shape);
  ROSE_CHECK(view.elements() == elements(), "tensor: %s reshaped to %s", show(*this).c_str(),
             show(view).c_str());
  return view;
}

std::string show(const Tensor& tensor) {
  std::string text = strf("%s [", name_of(tensor.dtype));
  for (int i = 0; i < tensor.rank; ++i)
    text += strf(i ? ", %ld" : "%ld", long(tensor.dims[size_t(i)]));
  return text + "]";
}

void shape_check(const char* op, const Tensor& tensor, const char* operand,
                 std::initializer_list<Dim*> dims) {
  ROSE_CHECK(tensor.rank == int(dims.size()), "%s: %s is %s, wanted rank %zu", op, operand,
             show(tensor).c_str(), dims.size());
  int i = 0;
  for (Dim* dim : dims) {
    const int64_t found = tensor.dims[size_t(i++)];
    if (dim->size < 0) dim->size = found;
    ROSE_CHECK(dim->size == found, "%s: %s is %s, but %s is %ld", op, operand, show(tensor).c_str(),
               dim->name, long(dim->size));
  }
}

}  // namespace rose
