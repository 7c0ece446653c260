// Puts steps on a device's stream, one behind another: what a step feeds and how it samples travels in one
// piece, then come the forward pass and the sampler, from a recorded graph where there is one. The next
// step may be launched before this one has landed, and may feed what this one draws: the tokens stay on the
// device. At most two steps are under way.
#pragma once
#include <functional>
#include <memory>

#include "device/host_buffer.h"
#include "engine/decode_graphs.h"
#include "engine/step_trace.h"
#include "model/loader.h"

namespace rose {

struct LauncherOptions {
  int vocab = 0;               // tokens that may be sampled
  int most_samples = 256;      // of a step
  bool enforce_eager = false;  // never as graphs
  StepTrace* trace = nullptr;  // hears of each step that has landed
};

class Launcher {
 public:
  // Model, cache and stream must outlive it.
  static Result<std::unique_ptr<Launcher>> make(const LoadedModel& model, const KvCache& kv,
                                                Stream& stream, const LauncherOptions& options);
  ~Launcher();

  // Fills in those rows that are `later`, while the device runs the forward pass.
  using Finish = std::function<void(std::span<SampleRow>)>;

  // The step's number. Where the device works on its own, the call returns before the step is done.
  int64_t launch(HostBatch batch, const Finish& finish = {});
  // Waits for it. A result for each sample, good until the next launch but one; the steps land in order.
  std::span<Sampled> land(int64_t number);

  // A launch returns before its step is done, so that the next may follow at once.
  bool works_ahead() const { return stream_->device->make_event != nullptr; }
  bool records() const { return stream_->device->begin_graph != nullptr; }
  // The device's own time of a step that has landed, from its first kernel to its last; 0 on the host.
  double device_seconds(int64_t number) const;

  DecodeGraphs& graphs() { return graphs_; }

 private:
  struct Slot {
    HostBuffer batch, lists, late_lists, results;
    Event* begun = nullptr;
    Event* done = nullptr;
    int64_t number = -1;
    int samples = 0;
    bool flies = false;
    StepSpan span;  // for the trace
  };
  static constexpr int kSlots = 2;

  Launcher(const LoadedModel& model, const KvCache& kv, Stream& stream,
           const LauncherOptions& options, Buffer newest);

  Tensor forward_and_sample(const PlacedBatch& placed);
  void sample(const Tensor& logits, const SampleRow* rows);

  const LoadedModel* model_;
  const KvCache* kv_;
  Stream* stream_;
  LauncherOptions options_;
  Buffer newest_;  // [most_samples]  i32: what the newest step drew
  Slot slots_[kSlots];
  int64_t launched_ = 0;
  DecodeGraphs graphs_;
};

}  // namespace rose
