// Owns a piece of device memory. Move-only.
#pragma once
#include <utility>

#include "base/result.h"
#include "device/device.h"

namespace rose {

class Buffer {
 public:
  Buffer() = default;
  static Result<Buffer> allocate(const Device& device, int64_t bytes) {
    Buffer buffer;
    buffer.device_ = &device;
    buffer.bytes_ = bytes;
    buffer.data_ = device.allocate(bytes > 0 ? bytes : 1);
    if (!buffer.data_)
      return fail(ErrorKind::io, std::string("out of memory on ") + device.name + ": " +
                                     std::to_string(bytes) + " bytes asked for");
    return buffer;
  }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() {
    if (data_) device_->release(data_, bytes_ > 0 ? bytes_ : 1);
  }

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  const Device* device_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace rose
