#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

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

// The number after `name` in a file of "name: number unit" lines, or in a file of one number ("").
int64_t read_number(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name)) {
      const char* digits = line.c_str() + name.size();
      char* end = nullptr;
      const int64_t number = std::strtoll(digits, &end, 10);
      if (end != digits) return number;
    }
  return -1;
}

// What the system could give without swapping, and what this process's container has left.
int64_t free_bytes() {
  int64_t free = read_number("/proc/meminfo", "MemAvailable:") * 1024;
  const int64_t limit = read_number("/sys/fs/cgroup/memory.max", "");  // "max": no limit
  const int64_t used = read_number("/sys/fs/cgroup/memory.current", "");
  if (limit >= 0 && used >= 0) free = std::min(free, limit - used);
  return std::max<int64_t>(free, 0);
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
      .free_bytes = free_bytes,
      .allocate_pinned = nullptr,
      .release_pinned = nullptr,
      .begin_graph = nullptr,
      .end_graph = nullptr,
      .run_graph = nullptr,
      .release_graph = nullptr,
      .make_event = nullptr,
      .record_event = nullptr,
      .await_event = nullptr,
      .seconds_between = nullptr,
      .release_event = nullptr,
  };
  return kHost;
}

}  // namespace rose
