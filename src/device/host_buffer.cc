#include "device/host_buffer.h"

#include <algorithm>

namespace rose {

Status HostBuffer::reserve(int64_t bytes) {
  if (bytes <= bytes_) return Done{};
  release();
  bytes = std::max(bytes, int64_t(4096));
  data_ =
      device_->allocate_pinned ? device_->allocate_pinned(bytes) : host_device().allocate(bytes);
  if (!data_)
    return fail(ErrorKind::io, std::string("out of host memory for ") + device_->name + ": " +
                                   std::to_string(bytes) + " bytes asked for");
  bytes_ = bytes;
  return Done{};
}

void HostBuffer::release() {
  if (!data_) return;
  if (device_->release_pinned)
    device_->release_pinned(data_);
  else
    host_device().release(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace rose
