// Runs steps on a device: forward pass and sampling. Owns the memory of keys and values.
#pragma once
#include <memory>

#include "engine/decode_graphs.h"
#include "engine/scheduler.h"
#include "layers/pass.h"
#include "model/loader.h"

namespace rose {

// A step under way. Its results are there when it has landed.
struct Flight {
  Step step;
  std::vector<SampleRow> rows;
  std::vector<Sampled> results;  // one for each slice that samples, in order
};

class Runner {
 public:
  // `model` and `stream` must outlive it. `vocab`: tokens that may be sampled.
  static Result<Runner> make(const LoadedModel& model, Stream& stream, int vocab,
                             const int (&pages)[kPools]);

  // Puts the step on the stream. The tokens that it feeds must be known; on a device that works on
  // its own, the call returns before the step is done.
  std::unique_ptr<Flight> launch(Step step);
  void land(Flight& flight);  // waits for it

  const KvCache& kv() const { return *kv_; }

 private:
  Runner(const LoadedModel& model, Stream& stream, int vocab, KvCache kv)
      : model_(&model),
        stream_(&stream),
        vocab_(vocab),
        kv_(std::make_unique<KvCache>(std::move(kv))),
        graphs_(std::make_unique<DecodeGraphs>(model, *kv_, stream)) {}

  Tensor forward(const HostBatch& batch);

  const LoadedModel* model_;
  Stream* stream_;
  int vocab_;
  std::unique_ptr<KvCache> kv_;  // the graphs point to it
  std::unique_ptr<DecodeGraphs> graphs_;
};

}  // namespace rose
