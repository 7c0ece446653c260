#include "kernels/cpu/cpu.h"

#include "kernels/ref.h"

namespace rose::cpu {

namespace {

// An op's functions take no context, so each table's are stamped out for its kernels.
template <const Kernels& kernels>
const Ops& table(const char* name) {
  static const Ops kOps = {
      .name = name,
      .device = &host_device(),
      .defaults = {.recipe = "q8", .step_tokens = 512, .kv_bytes = int64_t(4) << 30},
      .weight_bytes = cpu::weight_bytes,
      .pack = [](Stream& s, const Pack& op) { cpu::pack(kernels, s, op); },
      .generate = ref::generate,
      .embed = ref::embed,
      .rms_norm = [](Stream& s, const RmsNorm& op) { cpu::rms_norm(kernels, s, op); },
      .matmul = [](Stream& s, const Matmul& op) { cpu::matmul(kernels, s, op); },
      .rope_store = [](Stream& s, const RopeStore& op) { cpu::rope_store(kernels, s, op); },
      .attend = [](Stream& s, const Attend& op) { cpu::attend(kernels, s, op); },
      .route = [](Stream& s, const Route& op) { cpu::route(kernels, s, op); },
      .experts = [](Stream& s, const Experts& op) { cpu::experts(kernels, s, op); },
      .gather = ref::gather,
      .sample = ref::sample,
  };
  return kOps;
}

}  // namespace

// The compiler's checks ask cpuid and, by XGETBV, whether the system saves the registers.
const Ops* avx2_ops() {
  const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return runs ? &table<kAvx2>("cpu avx2") : nullptr;
}

const Ops* avx512_ops() {
  const bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vnni");
  return runs ? &table<kAvx512>("cpu avx512-vnni") : nullptr;
}

}  // namespace rose::cpu
