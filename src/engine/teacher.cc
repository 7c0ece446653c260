#include "engine/teacher.h"

#include <algorithm>
#include <numeric>

#include "engine/batch.h"
#include "layers/pass.h"

namespace rose {

namespace {

constexpr int kMostRows = 512;  // of one step: with 200,000 tokens they take 0.4 GB

}  // namespace

Result<Teacher> Teacher::make(const LoadedModel& model, Stream& stream, int tokens,
                              int step_tokens) {
  const int pages = (tokens + kPageSize - 1) / kPageSize;
  KvCache kv = TRY(within(
      KvCache::allocate(*stream.device, model.model->kv_spec(model.recipe->kv), {pages, pages}),
      "memory for keys and values"));
  return Teacher(model, stream, step_tokens, std::move(kv));
}

void Teacher::begin(std::span<const int> text, int first) {
  ROSE_CHECK(int(text.size()) <= kv_.pages(Pool::full) * kPageSize,
             "teacher: a text of %zu tokens, there is room for %d", text.size(),
             kv_.pages(Pool::full) * kPageSize);
  text_.assign(text.begin(), text.end());
  at_ = 0;
  first_ = std::max(first, 0);
}

TaughtRows Teacher::next() {
  const int tokens = int(text_.size());
  while (at_ < tokens && at_ < first_) step(std::min(step_tokens_, first_ - at_), 0);
  if (at_ == tokens) return {};
  const int count = std::min({step_tokens_, kMostRows, tokens - at_});
  step(count, count);
  return {.first = at_ - count, .count = count, .logits = logits_.data()};
}

void Teacher::step(int count, int rows) {
  HostBatch host;
  host.width = kv_.pages(Pool::full);
  host.first = {0, count};
  host.token_ids.assign(text_.begin() + at_, text_.begin() + at_ + count);
  host.positions.resize(size_t(count));
  std::iota(host.positions.begin(), host.positions.end(), at_);
  host.sequence.assign(size_t(count), 0);
  for (std::vector<int32_t>& table : host.pages) {
    table.resize(size_t(host.width));
    std::iota(table.begin(), table.end(), 0);
  }
  // A step of which no row is wanted still gives one: a forward pass of none is nobody's case.
  host.sampled.resize(size_t(std::max(rows, 1)));
  std::iota(host.sampled.begin(), host.sampled.end(), rows > 0 ? 0 : count - 1);

  stream_->scratch->reset();
  const Batch batch = upload(*stream_, host);
  Pass pass = {.ops = *model_->ops,
               .stream = *stream_,
               .kv = kv_,
               .batch = batch,
               .activations = model_->recipe->activations};
  const Tensor logits = model_->model->forward(pass);
  if (rows > 0) {
    logits_.resize(size_t(logits.elements()));
    stream_->device->download(*stream_, logits_.data(), logits.data, logits.bytes());
  }
  stream_->device->synchronize(*stream_);
  at_ += count;
}

}  // namespace rose
