// Every op the engine can do, one field each. A backend is a device and a filled-in table; choosing
// a backend is choosing a table, and no caller asks which it got.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "kernels/weight.h"

namespace rose {

struct Decode;
struct Embed;
struct RmsNorm;
struct Matmul;
struct RopeStore;
struct Attend;
struct Route;
struct Experts;
struct Gather;
struct Sample;
struct Pack;
struct Generate;

// How a backend is best used, unless asked otherwise.
struct Defaults {
  const char* recipe;    // its fastest (model/recipe.h)
  int step_tokens;       // of one step: more keep all others waiting for too long
  int64_t kv_bytes = 0;  // for keys and values, at most half of what is free; 0: that half
};

struct Ops {
  const char* name;  // "ref", "cpu avx512-vnni", "cpu avx2", …
  const Device* device;
  Defaults defaults;

  bool (*keeps)(Format format) = nullptr;  // see below
  int64_t (*weight_bytes)(Format format, int experts, int rows, int columns);
  void (*pack)(Stream&, const Pack&);
  void (*generate)(Stream&, const Generate&);

  void (*embed)(Stream&, const Embed&);
  void (*rms_norm)(Stream&, const RmsNorm&);
  void (*matmul)(Stream&, const Matmul&);
  void (*rope_store)(Stream&, const RopeStore&);
  void (*attend)(Stream&, const Attend&);
  void (*route)(Stream&, const Route&);
  void (*experts)(Stream&, const Experts&);
  void (*gather)(Stream&, const Gather&);
  void (*sample)(Stream&, const Sample&);

  // All layers at once (kernels/decode/decode.h), or null. False: not of these sizes or formats, nothing was done.
  bool (*decode)(Stream&, const Decode&) = nullptr;
};

// Whether the backend has kernels for matrices of this format; a table without a function has them for
// those that a CPU is quick with.
inline bool keeps(const Ops& ops, Format format) {
  if (ops.keeps) return ops.keeps(format);
  return format != Format::fp8 && format != Format::mxfp4_fp8 && format != Format::fp8_block;
}

const Ops& reference_ops();  // plain loops: slow, small, and the oracle of every test

// Every table this computer can run, the reference first, the fastest last.
std::vector<const Ops*> available_ops();

// By the name of a device: "auto", "cpu", "ref", "cuda", "cuda:1". The error lists what there is.
Result<const Ops*> find_ops(const std::string& device);

}  // namespace rose
