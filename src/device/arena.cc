#include "device/arena.h"

#include <algorithm>

namespace rose {

namespace {
constexpr int64_t kAlign = 256;
constexpr int64_t kBlockBytes = int64_t(4) << 20;
}  // namespace

Tensor Arena::take(DType dtype, std::initializer_list<int64_t> dims) {
  Tensor tensor(nullptr, dtype, dims);
  const int64_t bytes = (tensor.bytes() + kAlign - 1) / kAlign * kAlign;
  while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].bytes()) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    Result<Buffer> block = Buffer::allocate(*device_, std::max(bytes, kBlockBytes));
    ROSE_CHECK(block.has_value(), "scratch: %s", block.error().message.c_str());
    blocks_.push_back(std::move(*block));
  }
  tensor.data = static_cast<char*>(blocks_[block_].data()) + used_;
  used_ += bytes;
  return tensor;
}

void Arena::reset() {
  // One block serves better than many: join them once their sum is known.
  if (blocks_.size() > 1) {
    const int64_t all = bytes();
    blocks_.clear();
    Result<Buffer> block = Buffer::allocate(*device_, all);
    ROSE_CHECK(block.has_value(), "scratch: %s", block.error().message.c_str());
    blocks_.push_back(std::move(*block));
  }
  block_ = 0;
  used_ = 0;
}

int64_t Arena::bytes() const {
  int64_t all = 0;
  for (const Buffer& block : blocks_) all += block.bytes();
  return all;
}

}  // namespace rose
