#include "kernels/ops.h"

#include "kernels/cpu/cpu.h"
#include "kernels/ref.h"

#if ROSE_CUDA
#include "device/cuda.h"
#include "kernels/cuda.h"
#endif

namespace rose {

const Ops& reference_ops() {
  static const Ops kReference = {
      .name = "ref",
      .device = &host_device(),
      .defaults = {.recipe = "f32", .step_tokens = 512, .kv_bytes = int64_t(4) << 30},
      .keeps = [](Format) { return true; },
      .weight_bytes = ref::weight_bytes,
      .pack = ref::pack,
      .generate = ref::generate,
      .embed = ref::embed,
      .rms_norm = ref::rms_norm,
      .matmul = ref::matmul,
      .rope_store = ref::rope_store,
      .attend = ref::attend,
      .route = ref::route,
      .experts = ref::experts,
      .gather = ref::gather,
      .sample = ref::sample,
  };
  return kReference;
}

namespace {

#if ROSE_CUDA
const Ops* cuda_ops_on(int index) {
  if (index >= cuda_devices()) return nullptr;
  static const Ops kCuda = {
      .name = "cuda sm_90a",
      .device = &cuda_device(index),
      .defaults = {.recipe = "mxfp4", .step_tokens = 2048},
      .keeps = cuda::keeps,
      .weight_bytes = cuda::weight_bytes,
      .pack = cuda::pack,
      .generate = cuda::generate,
      .embed = cuda::embed,
      .rms_norm = cuda::rms_norm,
      .matmul = cuda::matmul,
      .rope_store = cuda::rope_store,
      .attend = cuda::attend,
      .route = cuda::route,
      .experts = cuda::experts,
      .gather = cuda::gather,
      .sample = cuda::sample,
      .decode = cuda::decode,
  };
  ROSE_CHECK(kCuda.device == &cuda_device(index), "one GPU serves a process");
  return &kCuda;
}
#else
const Ops* cuda_ops_on(int) { return nullptr; }
#endif

const Ops* cuda_ops() { return cuda_ops_on(0); }

// The N of "cuda:N", or -1.
int gpu_index(const std::string& device) {
  const std::string start = "cuda:";
  if (!device.starts_with(start) || device.size() == start.size() || device.size() > 8) return -1;
  const std::string digits = device.substr(start.size());
  return digits.find_first_not_of("0123456789") == std::string::npos ? std::stoi(digits) : -1;
}

// A backend by the name of its device. Several may share a device; the last that runs is the fastest.
struct Backend {
  const char* device;
  const Ops* (*ops)();  // null where this computer cannot run it
};

constexpr Backend kBackends[] = {
    {"ref", [] { return &reference_ops(); }},
    {"cpu", cpu::avx2_ops},
    {"cpu", cpu::avx512_ops},
    {"cuda", cuda_ops},
};

}  // namespace

std::vector<const Ops*> available_ops() {
  std::vector<const Ops*> all;
  for (const Backend& backend : kBackends)
    if (const Ops* ops = backend.ops()) all.push_back(ops);
  return all;
}

Result<const Ops*> find_ops(const std::string& device) {
  if (device == "auto") return available_ops().back();
  // Before any other GPU is asked: the first that is serves the process.
  if (const int index = gpu_index(device); index >= 0)
    if (const Ops* ops = cuda_ops_on(index)) return ops;
  const Ops* found = nullptr;
  std::string names = "auto";
  for (const Backend& backend : kBackends) {
    const Ops* ops = backend.ops();
    if (!ops) continue;
    if (device == backend.device) found = ops;
    if (names.find(backend.device) == std::string::npos)
      names += std::string(", ") + backend.device;
  }
  if (found) return found;
  return fail(ErrorKind::unsupported,
              strf("no device '%s'; this computer has: %s", device.c_str(), names.c_str()));
}

}  // namespace rose
