// The engine's public face: requests in, tokens out. One thread owns scheduler, pages and sequences;
// all others talk to it through the inbox.
#pragma once
#include <memory>

#include "engine/request.h"
#include "engine/step_buckets.h"
#include "model/loader.h"

namespace rose {

class StepTrace;

struct EngineOptions {
  int max_context = 0;  // tokens of one sequence, prompt and answer; 0: what the model can
  int max_seqs = 256;   // that run together
  int max_tokens_per_step = 2048;  // of prompts and answers together
  int max_waiting = 1024;          // requests in the queue
  int64_t max_waiting_tokens = 0;  // of their prompts; 0: no limit
  int64_t kv_bytes = 0;            // memory for keys and values; 0: a share of what is free
  bool prefix_cache = true;
  bool enforce_eager = false;     // no step as a recorded graph
  StepTrace* trace = nullptr;     // hears of each step; outlives the engine
  int vocab = 0;                  // tokens that exist (the tokenizer's); 0: the model's rows
  bool check_invariants = false;  // after each step; tests
};

// What /metrics and the log line show. Counters only grow.
struct EngineStats {
  int running = 0;  // choices
  int waiting = 0;
  int waiting_requests = 0;    // that have not begun
  int64_t waiting_tokens = 0;  // of their prompts
  int max_seqs = 0, max_waiting = 0;
  int pages[kPools] = {}, pages_free[kPools] = {}, pages_cached[kPools] = {};
  int64_t steps = 0;
  int64_t step_tokens = 0;  // of all steps together
  int64_t steps_by_tokens[kStepBuckets] = {};
  int64_t prompt_tokens = 0;  // computed, not taken from the cache
  int64_t generated_tokens = 0;
  int64_t preemptions = 0;
  int64_t prefix_queries = 0, prefix_hits = 0;  // tokens
  int64_t finished[5] = {};                     // by Finish
};

// What keys and values got.
struct KvMemory {
  int pages[kPools] = {};
  int64_t bytes = 0;
  int max_context = 0;        // tokens of one sequence: what was asked for, and what the pages hold
  int64_t scratch_bytes = 0;  // beside them, for steps
};

using RequestId = uint64_t;

class Engine {
 public:
  // The model, its ops and the stream must outlive the engine. `progress` hears of what is made ready ahead.
  static Result<std::unique_ptr<Engine>> start(
      LoadedModel& model, Stream& stream, const EngineOptions& options,
      const std::function<void(const LoadProgress&)>& progress = {});
  virtual ~Engine() = default;  // cancels what runs and joins the thread

  // From any thread. Refuses what can never fit (invalid) and what the queue cannot hold (busy);
  // whatever is accepted ends in exactly one Update with a finish for each choice. The first may come
  // before this returns; none comes after the destructor.
  virtual Result<RequestId> submit(Request request, Sink sink) = 0;
  // Its pages come back within a step. Unknown or finished ids are ignored.
  virtual void cancel(RequestId id) = 0;
  // Returns when nothing waits or runs; submit refuses (busy) from now on. Not from a sink.
  virtual void drain() = 0;

  virtual EngineStats stats() const = 0;  // from any thread, without waiting for a step
  virtual const KvMemory& memory() const = 0;
  int max_context() const { return memory().max_context; }
};

}  // namespace rose
