// Where numbers live. A device is a table of functions over its own memory; a stream is an order of
// work on it. The host fills the table with plain memory and runs everything at once.
#pragma once
#include <cstdint>

#include "base/threads.h"

namespace rose {

struct Stream;
struct Graph;  // a recorded order of work, replayed at once
struct Event;  // a place in a stream's order of work

struct Device {
  const char* name;                  // "cpu", "cuda:0"
  void* (*allocate)(int64_t bytes);  // aligned to 256; null when there is no memory left
  void (*release)(void* memory, int64_t bytes);
  void (*upload)(Stream&, void* device, const void* host, int64_t bytes);
  void (*download)(Stream&, void* host, const void* device, int64_t bytes);
  void (*zero)(Stream&, void* device, int64_t bytes);
  void (*synchronize)(Stream&);
  int64_t (*free_bytes)();  // that allocate could still give without harm to others
  // Operations a second of its fastest products, those of 8-bit numbers; half as many of 16-bit ones. By its
  // maker's word; 0: not known.
  double peak_flops = 0;

  // What follows is null where the device is the host itself.
  void* (*allocate_pinned)(
      int64_t bytes);  // host memory that copies read and write in the background
  void (*release_pinned)(void* memory);
  // What is launched between begin and end is recorded, not run. Addresses are recorded as they are.
  void (*begin_graph)(Stream&);
  Graph* (*end_graph)(Stream&);
  void (*run_graph)(Stream&, Graph*);
  void (*release_graph)(Graph*);
  double (*measure_read)(Stream&);  // bytes a second of a plain read of its memory
  Event* (*make_event)();
  void (*record_event)(Stream&, Event*);  // after all that was put on the stream so far
  void (*await_event)(Event*);            // the host waits until the device has come to it
  double (*seconds_between)(Event* first,
                            Event* second);  // of the device's own clock, both awaited
  void (*release_event)(Event*);
  // A span of the host's time that the device's profiler shows by this name.
  void (*begin_range)(const char* name);
  void (*end_range)();
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
