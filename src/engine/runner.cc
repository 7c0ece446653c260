#include "engine/runner.h"

namespace rose {

Result<Runner> Runner::make(const LoadedModel& model, Stream& stream, const int (&pages)[kPools],
                            const LauncherOptions& options) {
  const KvSpec spec = model.model->kv_spec(model.recipe->kv);
  auto kv = std::make_unique<KvCache>(
      TRY(within(KvCache::allocate(*stream.device, spec, pages), "memory for keys and values")));
  auto launcher = TRY(Launcher::make(model, *kv, stream, options));
  return Runner(std::move(kv), std::move(launcher));
}

std::unique_ptr<Flight> Runner::launch(Step step) {
  HostBatch batch = make_batch(step);
  // The device is at the forward pass while the host finds out what constraints allow.
  const int64_t number = launcher_->launch(std::move(batch), [&](std::span<SampleRow> rows) {
    size_t row = 0;
    for (const Slice& slice : step) {
      if (!slice.samples) continue;
      if (rows[row].later) slice.sequence->constrain(rows[row]);
      ++row;
    }
  });
  return std::make_unique<Flight>(Flight{std::move(step), number});
}

}  // namespace rose
