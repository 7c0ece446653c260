#include "engine/decode_graphs.h"

#include <algorithm>

namespace rose {

namespace {

constexpr int kSizes[] = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256};
constexpr int kLeastWidth = 16;  // pages of a sequence

// Page tables grow by halves, so that few graphs serve all lengths.
int padded_width(int width) {
  int padded = kLeastWidth;
  while (padded < width) padded *= 2;
  return padded;
}

}  // namespace

bool DecodeGraphs::takes(const HostBatch& batch) const {
  const size_t seqs = batch.first.size() - 1;
  return stream_->device->begin_graph && seqs == batch.token_ids.size() &&
         seqs == batch.sampled.size() && seqs > 0 && seqs <= size_t(*std::rbegin(kSizes));
}

Tensor DecodeGraphs::forward(const HostBatch& batch) {
  const int seqs = int(batch.first.size()) - 1;
  const int size = *std::lower_bound(std::begin(kSizes), std::end(kSizes), seqs);
  // The last sequence stands in for those that are missing: the same token at the same place costs no
  // expert that is not read anyway, and writes to the cache what is written there anyway.
  HostBatch full = batch;
  full.width = padded_width(batch.width);
  for (const Pool pool : {Pool::full, Pool::sliding}) {
    full.pages[int(pool)].clear();
    for (int seq = 0; seq < size; ++seq) {
      const auto row =
          batch.pages[int(pool)].begin() + std::ptrdiff_t(std::min(seq, seqs - 1)) * batch.width;
      full.pages[int(pool)].insert(full.pages[int(pool)].end(), row, row + batch.width);
      full.pages[int(pool)].resize(size_t(seq + 1) * size_t(full.width), kNoPage);
    }
  }
  for (int seq = seqs; seq < size; ++seq) {
    full.token_ids.push_back(full.token_ids.back());
    full.positions.push_back(full.positions.back());
    full.sequence.push_back(seq);
    full.first.push_back(seq + 1);
    full.sampled.push_back(seq);
  }

  Recorded& to = recorded(size, full.width);
  const auto pass = [&] {
    Pass pass = {.ops = *model_->ops,
                 .stream = *stream_,
                 .kv = *kv_,
                 .batch = to.batch,
                 .activations = model_->recipe->activations};
    return model_->model->forward(pass);
  };
  if (to.graph) {
    upload(*stream_, full, to.batch);
  } else {
    // A first run by itself sizes the scratch memory: nothing may be allocated while recording.
    Arena* const outer = std::exchange(stream_->scratch, &to.scratch);
    for (const bool record : {false, true}) {
      to.scratch.reset();
      to.batch = upload(*stream_, full);
      if (record) stream_->device->begin_graph(*stream_);
      to.logits = pass();
      if (record) to.graph = stream_->device->end_graph(*stream_);
      stream_->device->synchronize(*stream_);
    }
    stream_->scratch = outer;
  }
  stream_->device->run_graph(*stream_, to.graph);
  return to.logits.rows(0, seqs);
}

DecodeGraphs::Recorded& DecodeGraphs::recorded(int seqs, int width) {
  std::unique_ptr<Recorded>& found = recorded_[{seqs, width}];
  if (!found) found = std::make_unique<Recorded>(*stream_->device);
  return *found;
}

}  // namespace rose
