// What every command that runs a model needs, opened in one order: threads, weights, tokenizer, chat
// format, engine.
#pragma once
#include <memory>
#include <string>

#include "base/threads.h"
#include "cli/options.h"
#include "device/arena.h"
#include "engine/engine.h"
#include "engine/step_trace.h"
#include "model/loader.h"
#include "model/mock.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace rose {

struct ModelOptions {
  std::string model;
  std::string device = "auto";
  std::string recipe = "auto";
  int threads = 0;
  std::string load_format = "auto";
  std::string tokenizer;
  std::string chat_format = "auto";
  int max_model_len = 0;
  int max_num_seqs = 256;
  int max_num_batched_tokens = 0;
  int max_queued_requests = 1024;
  int64_t max_queued_tokens = 4 << 20;
  int64_t kv_cache_memory_bytes = 0;
  bool enable_prefix_caching = true;
  bool census = false;
  std::string profile;
  bool enforce_eager = false;
  MockOptions mock;
  int layers = 0;  // the first of the model's; 0: all. Of benchmarks, no option

  template <class Visit>
  void each(Visit&& visit) {
    visit("model,--model,-m", model,
          "a folder, or a name in the Hugging Face cache; none: the demo model");
    visit("--device", device,
          "cpu, cuda or cuda:N, ref (slow and exact), mock (no weights, a script) or auto: the "
          "fastest there "
          "is");
    visit("--recipe,--quantization", recipe,
          "precision: f32, bf16, q8, mxfp4, fp8; auto: the device's fastest");
    visit("--threads", threads, "of the CPU; 0: one for each core");
    visit("--load-format", load_format,
          "auto, or dummy: generated weights, config.json alone is read");
    visit("--tokenizer", tokenizer, "a tokenizer.json or .tiktoken file; none: the model's own");
    visit("--chat-format", chat_format,
          "how conversations are written: harmony, chatml, plain; auto: what the tokenizer is for");
    visit("--max-model-len,--context-length,--ctx-size,-c", max_model_len,
          "tokens of one sequence, prompt and answer; 0: what the model can");
    visit("--max-num-seqs,--max-running-requests", max_num_seqs, "sequences that run together");
    visit("--max-num-batched-tokens,--chunked-prefill-size", max_num_batched_tokens,
          "tokens of one step; longer prompts are cut; 0: what suits the device");
    visit("--max-queued-requests", max_queued_requests, "requests that may wait; more are refused");
    visit("--max-queued-tokens", max_queued_tokens,
          "tokens of prompts that may wait; more are refused; 0: no limit");
    visit("--kv-cache-memory-bytes", kv_cache_memory_bytes,
          "memory for keys and values; 0: at most half of what is free, on a CPU 4 GiB");
    visit("--enable-prefix-caching", enable_prefix_caching,
          "reuse the pages of equal prompt starts");
    visit("--profile", profile,
          "write what each step did to this file, for chrome://tracing and Perfetto");
    visit("--census", census,
          "after loading, say of each tensor how many blocks of MXFP4 the recipe keeps to fewer "
          "bits");
    visit("--enforce-eager", enforce_eager,
          "launch every step kernel by kernel, none as a recorded graph");
    mock.each(visit);
  }
};

// The model and what it runs on. Stays where it is: its parts point at each other.
struct Runtime {
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<Arena> scratch;
  Stream stream;
  LoadedModel loaded;
  std::unique_ptr<StepTrace> trace;  // of --profile

  const ModelConfig& config() const { return loaded.model->config(); }
};

using LoadWatch = std::function<void(const LoadProgress&)>;

// Names the model, device and recipe on stderr and shows the progress of loading, to `watch` as well.
Result<std::unique_ptr<Runtime>> open_runtime(const ModelOptions& options,
                                              const LoadWatch& watch = {});

// Of the device, in bytes.
struct MemoryReport {
  int64_t weights = 0, kv = 0, scratch = 0;
  int64_t taken = 0;  // as found; 0 where the device is the host
  int64_t reckoned() const { return weights + kv + scratch; }
};

struct Session {
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatFormat> format;
  std::unique_ptr<Engine> engine;
  std::string name;              // "gpt-oss-20b", "demo": what the API calls it
  std::vector<int> stop_tokens;  // the format's and the checkpoint's
  MemoryReport memory;
};

Result<std::unique_ptr<Session>> open_session(const ModelOptions& options,
                                              const LoadWatch& watch = {});

// What the option asks for, or suits the device.
int step_tokens(const ModelOptions& options, const Ops& ops);

// The tokenizer of the options, or the model's own.
Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& file,
                                                  const std::string& model);

}  // namespace rose
