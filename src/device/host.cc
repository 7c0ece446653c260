#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "device/device.h"

namespace rose {

namespace {

// Big pieces are mapped, so that they come zeroed, go back to the system when released, and may use
// huge pages (a model's weights are read in long streams: fewer TLB misses).
constexpr int64_t kMapFrom = int64_t(1) << 21;

void* allocate(int64_t bytes) {
  if (bytes < kMapFrom) return std::aligned_alloc(256, size_t((bytes + 255) / 256 * 256));
  void* memory = ::mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::madvise(memory, size_t(bytes), MADV_HUGEPAGE);
  return memory;
}

void release(void* memory, int64_t bytes) {
  if (bytes < kMapFrom)
    std::free(memory);
  else
    ::munmap(memory, size_t(bytes));
}

void copy(Stream&, void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, size_t(bytes));
}

void zero(Stream&, void* memory, int64_t bytes) {
  if (bytes > 0) std::memset(memory, 0, size_t(bytes));
}

}  // namespace

const Device& host_device() {
  static constexpr Device kHost = {
      .name = "cpu",
      .allocate = allocate,
      .release = release,
      .upload = copy,
      .download = copy,
      .zero = zero,
      .synchronize = [](Stream&) {},
  };
  return kHost;
}

}  // namespace rose
