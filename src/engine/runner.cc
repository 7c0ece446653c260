#include "engine/runner.h"

#include "engine/batch.h"
#include "kernels/sample/sample.h"

namespace rose {

Result<Runner> Runner::make(const LoadedModel& model, Stream& stream, int vocab,
                            const int (&pages)[kPools]) {
  const KvSpec spec = model.model->kv_spec(model.recipe->kv);
  KvCache kv =
      TRY(within(KvCache::allocate(*stream.device, spec, pages), "memory for keys and values"));
  return Runner(model, stream, vocab, std::move(kv));
}

std::unique_ptr<Flight> Runner::launch(Step step) {
  auto flight = std::make_unique<Flight>();
  flight->step = std::move(step);
  stream_->scratch->reset();
  const Tensor logits = forward(make_batch(flight->step));
  // A device that works on its own does so while the host finds out which tokens are allowed.
  for (const Slice& slice : flight->step)
    if (slice.samples)
      flight->rows.push_back(slice.sequence->sample_row(slice.first + slice.count));
  flight->results.resize(flight->rows.size());
  if (!flight->rows.empty())
    model_->ops->sample(*stream_, {
                                      .logits = logits,
                                      .vocab = vocab_,
                                      .rows = flight->rows,
                                      .results = flight->results,
                                  });
  return flight;
}

Tensor Runner::forward(const HostBatch& host) {
  if (graphs_->takes(host)) return graphs_->forward(host);
  const Batch batch = upload(*stream_, host);
  Pass pass = {
      .ops = *model_->ops,
      .stream = *stream_,
      .kv = *kv_,
      .batch = batch,
      .activations = model_->recipe->activations,
  };
  return model_->model->forward(pass);
}

void Runner::land(Flight&) { stream_->device->synchronize(*stream_); }

}  // namespace rose
