// Runs steps on a device: forward pass and sampling. Owns the memory of keys and values.
#pragma once
#include <memory>

#include "engine/launcher.h"
#include "engine/scheduler.h"

namespace rose {

// A step under way.
struct Flight {
  Step step;
  int64_t number;  // of the launch
};

class Runner {
 public:
  // `model` and `stream` must outlive it.
  static Result<Runner> make(const LoadedModel& model, Stream& stream, const int (&pages)[kPools],
                             const LauncherOptions& options);

  // Puts the step on the stream: it may feed what the step before draws. Where the device works on its
  // own, the call returns before the step is done, and the next may be launched before it has landed.
  std::unique_ptr<Flight> launch(Step step);
  // Waits for it: one result for each slice that samples, in order, good until the next launch but one.
  std::span<Sampled> land(const Flight& flight) { return launcher_->land(flight.number); }
  bool works_ahead() const { return launcher_->works_ahead(); }

  const KvCache& kv() const { return *kv_; }
  Launcher& launcher() { return *launcher_; }

 private:
  Runner(std::unique_ptr<KvCache> kv, std::unique_ptr<Launcher> launcher)
      : kv_(std::move(kv)), launcher_(std::move(launcher)) {}

  std::unique_ptr<KvCache> kv_;  // the launcher points to it
  std::unique_ptr<Launcher> launcher_;
};

}  // namespace rose
