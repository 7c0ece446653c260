// Where numbers live. A device is a table of functions over its own memory; a stream is an order of
// work on it. The host fills the table with plain memory and runs everything at once.
#pragma once
#include <cstdint>

#include "base/threads.h"

namespace rose {

struct Stream;

struct Device {
  const char* name;                  // "cpu", "cuda:0"
  void* (*allocate)(int64_t bytes);  // aligned to 256; null when there is no memory left
  void (*release)(void* memory, int64_t bytes);
  void (*upload)(Stream&, void* device, const void* host, int64_t bytes);
  void (*download)(Stream&, void* host, const void* device, int64_t bytes);
  void (*zero)(Stream&, void* device, int64_t bytes);
  void (*synchronize)(Stream&);
  int64_t (*free_bytes)();  // that allocate could still give without harm to others
};

const Device& host_device();

class Arena;

// What an op runs on: where, by whom, and the scratch memory it may use until the step ends.
struct Stream {
  const Device* device;
  ThreadPool* threads;     // the host's; an op of another device does not use it
  Arena* scratch;          // reset before each step
  void* native = nullptr;  // the device's own stream
};

}  // namespace rose
