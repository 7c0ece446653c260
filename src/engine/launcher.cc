#include "engine/launcher.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace rose {

Result<std::unique_ptr<Launcher>> Launcher::make(const LoadedModel& model, const KvCache& kv,
                                                 Stream& stream, const LauncherOptions& options) {
  const int64_t most = std::max(options.most_samples, 1);
  Buffer newest = TRY(Buffer::allocate(*stream.device, most * int64_t(sizeof(int32_t))));
  std::unique_ptr<Launcher> launcher(new Launcher(model, kv, stream, options, std::move(newest)));
  const Device& device = *stream.device;
  for (Slot& slot : launcher->slots_) {
    for (HostBuffer* buffer : {&slot.batch, &slot.lists, &slot.late_lists, &slot.results})
      *buffer = HostBuffer(device);
    TRY(slot.results.reserve(most * int64_t(sizeof(Sampled))));
    if (device.make_event) slot.begun = device.make_event(), slot.done = device.make_event();
  }
  return launcher;
}

Launcher::Launcher(const LoadedModel& model, const KvCache& kv, Stream& stream,
                   const LauncherOptions& options, Buffer newest)
    : model_(&model),
      kv_(&kv),
      stream_(&stream),
      options_(options),
      newest_(std::move(newest)),
      graphs_(stream, [this](const PlacedBatch& placed) { return forward_and_sample(placed); }) {}

Launcher::~Launcher() {
  for (Slot& slot : slots_) {
    if (slot.flies) land(slot.number);
    for (Event* event : {slot.begun, slot.done})
      if (event) stream_->device->release_event(event);
  }
}

namespace {
// A host buffer that is too small for a step is as fatal as scratch memory that is.
void need(HostBuffer& buffer, int64_t bytes) {
  const Status reserved = buffer.reserve(bytes);
  ROSE_CHECK(reserved.has_value(), "launch: %s", reserved.error().message.c_str());
}

// What the device's profiler shows of the host while a step is put on the stream.
class Range {
 public:
  Range(const Device& device, const StepSpan& span) : device_(&device) {
    if (device.begin_range)
      device.begin_range(strf("step of %d tokens, %d sequences", span.tokens, span.seqs).c_str());
  }
  ~Range() {
    if (device_->end_range) device_->end_range();
  }
  Range(const Range&) = delete;

 private:
  const Device* device_;
};
}  // namespace

int64_t Launcher::launch(HostBatch host, const Finish& finish) {
  const Device& device = *stream_->device;
  Slot& slot = slots_[launched_ % kSlots];
  ROSE_CHECK(!slot.flies, "launch: step %ld has not landed", long(slot.number));
  ROSE_CHECK(host.samples() <= options_.most_samples, "launch: %d samples, at most %d",
             host.samples(), options_.most_samples);
  ROSE_CHECK(host.rows.size() == host.sampled.size(), "launch: %zu rows for %d samples",
             host.rows.size(), host.samples());
  slot.number = launched_++;
  slot.span = {.begin = options_.trace ? options_.trace->now() : 0,
               .tokens = host.tokens(),
               .seqs = host.seqs(),
               .samples = host.samples()};
  slot.samples = host.samples();
  slot.flies = true;
  const Range range(device, slot.span);
  auto* const results = reinterpret_cast<Sampled*>(slot.results.data());
  for (size_t row = 0; row < host.rows.size(); ++row) host.rows[row].result = results + row;
  const std::vector<SampleRow> wanted = host.rows;

  stream_->scratch->reset();
  if (const int64_t bytes = list_bytes(host.rows, options_.vocab)) {
    need(slot.lists, bytes);
    void* const there = stream_->scratch->take(DType::u8, {bytes}).data;
    place_lists(host.rows, options_.vocab, slot.lists.data(), there);
    device.upload(*stream_, there, slot.lists.data(), bytes);
  }

  Tensor logits;
  if (!options_.enforce_eager && graphs_.takes(host)) {
    logits = graphs_.run(host, slot.batch, slot.begun);
  } else {
    const int64_t bytes = bytes_of(host);
    need(slot.batch, bytes);
    void* const there = stream_->scratch->take(DType::u8, {bytes}).data;
    write(host, slot.batch.data());
    device.upload(*stream_, there, slot.batch.data(), bytes);
    if (slot.begun) device.record_event(*stream_, slot.begun);
    logits = forward_and_sample(place(host, there));
  }

  const auto later = [](const SampleRow& row) { return row.later; };
  if (std::any_of(wanted.begin(), wanted.end(), later)) {
    std::vector<SampleRow> rows = wanted;
    finish(rows);
    for (size_t row = 0; row < rows.size(); ++row) {
      ROSE_CHECK(!rows[row].later, "launch: row %zu was left for later for ever", row);
      if (!wanted[row].later) rows[row] = {.later = true};  // it is done
    }
    const int64_t row_bytes = int64_t(rows.size() * sizeof(SampleRow));
    const int64_t bytes = row_bytes + list_bytes(rows, options_.vocab);
    need(slot.late_lists, bytes);
    auto* const there = static_cast<uint8_t*>(stream_->scratch->take(DType::u8, {bytes}).data);
    place_lists(rows, options_.vocab, slot.late_lists.data() + row_bytes, there + row_bytes);
    std::memcpy(slot.late_lists.data(), rows.data(), size_t(row_bytes));
    device.upload(*stream_, there, slot.late_lists.data(), bytes);
    sample(logits, reinterpret_cast<const SampleRow*>(there));
  }
  if (slot.done) device.record_event(*stream_, slot.done);
  return slot.number;
}

Tensor Launcher::forward_and_sample(const PlacedBatch& placed) {
  Batch batch = placed.batch;
  batch.newest = Tensor(newest_.data(), DType::i32, {options_.most_samples});
  Pass pass = {.ops = *model_->ops,
               .stream = *stream_,
               .kv = *kv_,
               .batch = batch,
               .activations = model_->recipe->activations};
  const Tensor logits = model_->model->forward(pass);
  if (logits.dims[0] > 0) sample(logits, placed.rows);
  return logits;
}

void Launcher::sample(const Tensor& logits, const SampleRow* rows) {
  model_->ops->sample(*stream_, {.tokens = Tensor(newest_.data(), DType::i32, {logits.dims[0]}),
                                 .logits = logits,
                                 .rows = rows,
                                 .vocab = options_.vocab});
}

std::span<Sampled> Launcher::land(int64_t number) {
  Slot& slot = slots_[number % kSlots];
  ROSE_CHECK(slot.flies && slot.number == number, "land: step %ld is not under way", long(number));
  if (slot.done) stream_->device->await_event(slot.done);
  slot.flies = false;
  if (options_.trace) {
    slot.span.end = options_.trace->now();
    slot.span.device = device_seconds(number);
    options_.trace->add(slot.span);
  }
  return {reinterpret_cast<Sampled*>(slot.results.data()), size_t(slot.samples)};
}

double Launcher::device_seconds(int64_t number) const {
  const Slot& slot = slots_[number % kSlots];
  ROSE_CHECK(!slot.flies && slot.number == number, "step %ld has not landed, or long ago",
             long(number));
  return slot.done ? stream_->device->seconds_between(slot.begun, slot.done) : 0;
}

}  // namespace rose
