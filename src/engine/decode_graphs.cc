#include "engine/decode_graphs.h"

#include <algorithm>

#include "base/log.h"

namespace rose {

namespace {

constexpr int kSizes[] = {1,  2,   4,   8,   16,  24,  32,  48,  64,
                          96, 128, 160, 192, 256, 320, 384, 448, 512};
constexpr int kLargest = *std::rbegin(kSizes);
constexpr int kMostCount = 16;  // tokens of a sequence; a chunk of a prompt is rarely as long twice
constexpr int kLeastWidth = 16;  // pages of a sequence

int padded_size(int seqs) {
  return *std::lower_bound(std::begin(kSizes), std::end(kSizes), std::min(seqs, kLargest));
}

// Page tables grow by halves, so that few graphs serve all lengths.
int padded_width(int width) {
  int padded = kLeastWidth;
  while (padded < width) padded *= 2;
  return padded;
}

// Stands for any step of these sizes.
HostBatch example(int seqs, int width) {
  HostBatch batch = {.token_ids = {0},
                     .positions = {0},
                     .sequence = {0},
                     .first = {0, 1},
                     .pages = {{0}, {0}},
                     .sampled = {0},
                     .rows = {{.later = true}},
                     .width = 1};
  return padded(batch, seqs, width);
}

}  // namespace

DecodeGraphs::DecodeGraphs(Stream& stream, Pass pass)
    : stream_(&stream), pass_(std::move(pass)), scratch_(*stream.device) {}

DecodeGraphs::~DecodeGraphs() {
  if (!graphs_.empty()) stream_->device->synchronize(*stream_);
  for (auto& [sizes, recorded] : graphs_) stream_->device->release_graph(recorded.graph);
}

bool DecodeGraphs::takes(const HostBatch& batch) {
  const Uniform shape = uniform(batch);
  if (!stream_->device->begin_graph || shape.count < 1 || shape.count > kMostCount) return false;
  // Many tokens of one sequence are a prompt, unless each of them samples.
  if (shape.count > 1 && !shape.each) return false;
  if (shape.seqs <= kLargest) return true;
  if (!std::exchange(told_, true))
    log_warning(
        strf("a step decodes %d sequences, recorded steps end at %d: it is launched kernel by "
             "kernel, which is slower (--max-num-seqs %d avoids it)",
             shape.seqs, kLargest, kLargest));
  return false;
}

Tensor DecodeGraphs::run(const HostBatch& batch, HostBuffer& staging, Event* begun) {
  const HostBatch full = padded(batch, padded_size(batch.seqs()), padded_width(batch.width));
  Recorded& to = recorded(full);
  const int64_t bytes = bytes_of(full);
  const Status reserved = staging.reserve(bytes);
  ROSE_CHECK(reserved.has_value(), "launch: %s", reserved.error().message.c_str());
  write(full, staging.data());
  stream_->device->upload(*stream_, to.input, staging.data(), bytes);
  if (begun) stream_->device->record_event(*stream_, begun);
  stream_->device->run_graph(*stream_, to.graph);
  return to.logits.rows(0, batch.samples());
}

DecodeGraphs::Recorded& DecodeGraphs::recorded(const HostBatch& batch) {
  const Uniform shape = uniform(batch);
  Recorded& found = graphs_[{shape.seqs, shape.count, shape.each, batch.width}];
  if (found.graph) return found;
  Arena* const outer = std::exchange(stream_->scratch, &scratch_);
  scratch_.rewind({0, 0});
  found.input = scratch_.take(DType::u8, {bytes_of(batch)}).data;
  stream_->device->begin_graph(*stream_);
  found.logits = pass_(place(batch, found.input));
  found.graph = stream_->device->end_graph(*stream_);
  stream_->scratch = outer;
  return found;
}

void DecodeGraphs::record_ahead(int seqs, int pages,
                                const std::function<void(int done, int of)>& progress) {
  if (!stream_->device->begin_graph) return;
  std::vector<int> sizes, widths;
  for (const int size : kSizes)
    if (size <= padded_size(seqs)) sizes.insert(sizes.begin(), size);
  for (int width = kLeastWidth; width <= padded_width(pages); width *= 2)
    widths.insert(widths.begin(), width);
  int done = 0;
  for (const int size : sizes)
    for (const int width : widths) {
      recorded(example(size, width));
      if (progress) progress(++done, int(sizes.size() * widths.size()));
    }
}

}  // namespace rose
