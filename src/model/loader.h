// From a name on the command line to a model in memory.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "kernels/ops.h"
#include "model/model.h"

namespace rose {

struct LoadOptions {
  std::string
      model;  // a folder, or a name of the Hugging Face cache ("openai/gpt-oss-20b[@revision]")
  std::string load_format =
      "auto";         // auto: the checkpoint's own; dummy: generated weights, config.json only
  uint64_t seed = 0;  // of dummy weights
  int layers = 0;     // only the first of the model's; 0: all
};

struct LoadProgress {
  const char* phase;  // "weights", "steps", …
  int64_t bytes = 0;  // done so far; of a phase that counts pieces: pieces
  int64_t total = 0;
  double seconds = 0;  // since the phase began
  bool pieces = false;
};

// What packing lost of a tensor that the checkpoint has in MXFP4.
struct Census {
  std::string name;
  int64_t blocks = 0;   // of 32 numbers with one exponent
  int64_t inexact = 0;  // of them: the backend's format does not hold all of their numbers
};

struct LoadedModel {
  std::unique_ptr<Model> model;
  const Recipe* recipe = nullptr;
  const Ops* ops = nullptr;
  std::string folder;          // where config.json and the tokenizer are
  int64_t weight_bytes = 0;    // in memory, packed
  std::vector<Census> census;  // in the order of the model's list of weights
  std::vector<Buffer> memory;  // what the model's tensors point into
};

// The folder of a model: the one named, or that of the config.json named, or its original/ if only that
// has a model; else the snapshot of `main` (or the revision named) in the Hugging Face cache:
// $HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub. Never downloads.
Result<std::string> resolve_model(const std::string& name);

// Reads the checkpoint (Hugging Face shards, dequantised bf16 ones, or the `original/` layout), packs it
// for the backend in parallel, and binds every row of the model's weight list, or says which does not fit.
Result<LoadedModel> load_model(const LoadOptions& options, const Recipe& recipe, Stream& stream,
                               const Ops& ops,
                               const std::function<void(const LoadProgress&)>& progress = {});

}  // namespace rose
