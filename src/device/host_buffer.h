// Host memory that a device's copies and kernels read and write in the background: pinned where the
// device knows how, else plain. Move-only.
#pragma once
#include <utility>

#include "base/result.h"
#include "device/device.h"

namespace rose {

class HostBuffer {
 public:
  HostBuffer() = default;
  explicit HostBuffer(const Device& device) : device_(&device) {}
  HostBuffer(HostBuffer&& other) noexcept { *this = std::move(other); }
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HostBuffer() { release(); }

  // At least so many bytes from now on; what was there is lost if there were fewer.
  Status reserve(int64_t bytes);

  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  int64_t bytes() const { return bytes_; }

 private:
  void release();

  const Device* device_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace rose
