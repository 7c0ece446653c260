// Steps in which every sequence feeds as many tokens, as recorded graphs: one launch for the hundreds of
// kernels of a forward pass and the sampler. A graph holds addresses and sizes, so there is one for each
// size of batch and of page table, recorded ahead or when first needed; smaller steps are filled up to the
// next size. All graphs share one scratch memory: they run one after another.
#pragma once
#include <functional>
#include <map>
#include <tuple>

#include "device/arena.h"
#include "device/host_buffer.h"
#include "engine/batch.h"

namespace rose {

class DecodeGraphs {
 public:
  // Puts a step on the stream: forward pass and sampling. Returns the logits.
  using Pass = std::function<Tensor(const PlacedBatch&)>;

  DecodeGraphs(Stream& stream, Pass pass);
  ~DecodeGraphs();

  // Whether a step of this shape runs as a graph. Says once in the log where one should, but is too large.
  bool takes(const HostBatch& batch);

  // Puts it on the stream, `begun` after the upload; `staging` must stay as it is until the device has read
  // it. The logits of the step's rows are good until the next call.
  Tensor run(const HostBatch& batch, HostBuffer& staging, Event* begun);

  // Records ahead what decodes up to `seqs` sequences of up to `pages` pages, the largest first.
  void record_ahead(int seqs, int pages, const std::function<void(int done, int of)>& progress);

  int recorded() const { return int(graphs_.size()); }
  int64_t scratch_bytes() const { return scratch_.bytes(); }

 private:
  struct Recorded {
    void* input = nullptr;
    Tensor logits;
    Graph* graph = nullptr;
  };
  Recorded& recorded(const HostBatch& padded);

  Stream* stream_;
  Pass pass_;
  Arena scratch_;  // never joined: graphs point into it
  std::map<std::tuple<int, int, bool, int>, Recorded> graphs_;  // sequences, tokens of each, width
  bool told_ = false;
};

}  // namespace rose
