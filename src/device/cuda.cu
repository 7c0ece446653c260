#include "device/cuda.h"

#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "device/launch.cuh"

namespace rose {

namespace cuda {

namespace {

// One GPU serves a process; its index is set once, by the first call of cuda_device.
int chosen = -1;

// The current device belongs to a thread, and any thread of ours may call.
void use_chosen() {
  thread_local bool done = false;
  if (done) return;
  check(cudaSetDevice(chosen), "choosing the GPU");
  done = true;
}

void* allocate(int64_t bytes) {
  use_chosen();
  void* memory = nullptr;
  if (cudaMalloc(&memory, size_t(bytes)) == cudaSuccess) return memory;
  cudaGetLastError();  // too little memory is the caller's to report
  return nullptr;
}

void release(void* memory, int64_t) {
  use_chosen();
  check(cudaFree(memory), "freeing device memory");
}

void upload(Stream& stream, void* device, const void* host, int64_t bytes) {
  const Turn turn;
  if (bytes > 0)
    check(cudaMemcpyAsync(device, host, size_t(bytes), cudaMemcpyHostToDevice, native(stream)),
          "upload");
}

void download(Stream& stream, void* host, const void* device, int64_t bytes) {
  const Turn turn;
  if (bytes > 0)
    check(cudaMemcpyAsync(host, device, size_t(bytes), cudaMemcpyDeviceToHost, native(stream)),
          "download");
}

void zero(Stream& stream, void* device, int64_t bytes) {
  const Turn turn;
  if (bytes > 0) check(cudaMemsetAsync(device, 0, size_t(bytes), native(stream)), "zero");
}

void synchronize(Stream& stream) {
  const Turn turn;
  check(cudaStreamSynchronize(native(stream)), "synchronize");
}

int64_t free_bytes() {
  use_chosen();
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "free memory");
  return int64_t(free);
}

void* allocate_pinned(int64_t bytes) {
  use_chosen();
  void* memory = nullptr;
  return cudaMallocHost(&memory, size_t(bytes)) == cudaSuccess ? memory : nullptr;
}

void release_pinned(void* memory) {
  use_chosen();
  check(cudaFreeHost(memory), "freeing pinned memory");
}

// What was recorded, twice: launching one that still runs costs the host 50 us more.
struct Replays {
  cudaGraphExec_t ready[2] = {};
  int next = 0;
};

void begin_graph(Stream& stream) {
  Turn::lock().lock();
  check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeRelaxed), "begin a graph");
}

Graph* end_graph(Stream& stream) {
  cudaGraph_t graph;
  check(cudaStreamEndCapture(native(stream), &graph), "end a graph");
  Turn::lock().unlock();
  auto* const replays = new Replays;
  for (cudaGraphExec_t& replay : replays->ready)
    check(cudaGraphInstantiate(&replay, graph, 0), "make a graph");
  check(cudaGraphDestroy(graph), "make a graph");
  return reinterpret_cast<Graph*>(replays);
}

void run_graph(Stream& stream, Graph* graph) {
  const Turn turn;
  auto* const replays = reinterpret_cast<Replays*>(graph);
  check(cudaGraphLaunch(replays->ready[replays->next], native(stream)), "run a graph");
  replays->next = 1 - replays->next;
}

void release_graph(Graph* graph) {
  use_chosen();
  auto* const replays = reinterpret_cast<Replays*>(graph);
  for (const cudaGraphExec_t replay : replays->ready)
    check(cudaGraphExecDestroy(replay), "free a graph");
  delete replays;
}

Event* make_event() {
  use_chosen();
  cudaEvent_t event;
  check(cudaEventCreate(&event), "making an event");
  return reinterpret_cast<Event*>(event);
}

void record_event(Stream& stream, Event* event) {
  const Turn turn;
  check(cudaEventRecord(reinterpret_cast<cudaEvent_t>(event), native(stream)),
        "recording an event");
}

void await_event(Event* event) {
  check(cudaEventSynchronize(reinterpret_cast<cudaEvent_t>(event)), "a step on the GPU");
}

double seconds_between(Event* first, Event* second) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, reinterpret_cast<cudaEvent_t>(first),
                             reinterpret_cast<cudaEvent_t>(second)),
        "reading events");
  return double(milliseconds) / 1e3;
}

void release_event(Event* event) {
  use_chosen();
  check(cudaEventDestroy(reinterpret_cast<cudaEvent_t>(event)), "freeing an event");
}

void begin_range(const char* name) { nvtxRangePushA(name); }
void end_range() { nvtxRangePop(); }

}  // namespace

cudaStream_t native(Stream& stream) {
  use_chosen();
  if (stream.native) return static_cast<cudaStream_t>(stream.native);
  static const cudaStream_t all = [] {
    cudaStream_t made;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "making a stream");
    return made;
  }();
  return all;
}

std::recursive_mutex& Turn::lock() {
  static std::recursive_mutex mutex;
  return mutex;
}

int multiprocessors() {
  static const int count = [] {
    use_chosen();
    int value = 0;
    check(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, chosen), "device");
    return value;
  }();
  return count;
}

}  // namespace cuda

int cuda_devices() {
  // Kernels load when the program starts, not at their first launch, which might be inside a step.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return 0;
  for (int i = 0; i < count; ++i) {
    int major = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i) != cudaSuccess ||
        major != 9)
      return i;  // the kernels are built for sm_90a alone
  }
  return count;
}

const Device& cuda_device(int index) {
  using namespace cuda;
  if (chosen < 0) chosen = index;
  ROSE_CHECK(chosen == index, "cuda:%d asked for, but this process runs on cuda:%d", index, chosen);
  static const std::string name = "cuda:" + std::to_string(index);
  static const Device device = {
      .name = name.c_str(),
      .allocate = allocate,
      .release = release,
      .upload = upload,
      .download = download,
      .zero = zero,
      .synchronize = synchronize,
      .free_bytes = free_bytes,
      .peak_flops = 1979e12,  // H100 and H200 SXM, dense
      .allocate_pinned = allocate_pinned,
      .release_pinned = release_pinned,
      .begin_graph = begin_graph,
      .end_graph = end_graph,
      .run_graph = run_graph,
      .release_graph = release_graph,
      .measure_read = measure_read,
      .make_event = make_event,
      .record_event = record_event,
      .await_event = await_event,
      .seconds_between = seconds_between,
      .release_event = release_event,
      .begin_range = begin_range,
      .end_range = end_range,
  };
  return device;
}

}  // namespace rose
