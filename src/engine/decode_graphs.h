// Decoding steps as recorded graphs: one launch for the hundreds of kernels of a forward pass. A graph
// holds addresses and sizes, so there is one for each size of batch and of page table, made when first
// needed; smaller steps are filled up to the next size.
#pragma once
#include <map>
#include <memory>
#include <utility>

#include "device/arena.h"
#include "device/buffer.h"
#include "engine/batch.h"
#include "layers/pass.h"
#include "model/loader.h"

namespace rose {

class DecodeGraphs {
 public:
  DecodeGraphs(const LoadedModel& model, const KvCache& kv, Stream& stream)
      : model_(&model), kv_(&kv), stream_(&stream) {}

  // Whether the step is one: every sequence feeds one token and samples, on a device with graphs.
  bool takes(const HostBatch& batch) const;

  // Puts the forward pass on the stream; the logits of the step's rows, valid until the next call.
  Tensor forward(const HostBatch& batch);

 private:
  struct Recorded {
    Recorded(const Device& device) : device(&device), scratch(device) {}
    Recorded(const Recorded&) = delete;
    ~Recorded() {
      if (graph) device->release_graph(graph);
    }
    const Device* device;
    Arena scratch;  // of the pass: what the graph's kernels point into
    Batch batch;
    Tensor logits;
    Graph* graph = nullptr;
  };

  Recorded& recorded(int seqs, int width);

  const LoadedModel* model_;
  const KvCache* kv_;
  Stream* stream_;
  std::map<std::pair<int, int>, std::unique_ptr<Recorded>> recorded_;  // by sequences and width
};

}  // namespace rose
