#include "model/loader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "base/check.h"
#include "base/clock.h"
#include "device/host_buffer.h"
#include "kernels/pack/pack.h"
#include "model/checkpoint.h"
#include "model/dummy.h"
#include "tensor/bf16.h"
#include "tensor/mxfp4.h"

namespace rose {

namespace {

using Progress = std::function<void(const LoadProgress&)>;

// Tells how far a phase is, a few times a second, and once at its end.
class Phase {
 public:
  Phase(const Progress& progress, const char* name, int64_t total = 0)
      : progress_(progress), now_{.phase = name, .total = total} {}

  void add(int64_t bytes) {
    now_.bytes += bytes;
    if (Clock::now() - told_ > std::chrono::milliseconds(100)) tell();
  }
  void end() { tell(); }

 private:
  void tell() {
    told_ = Clock::now();
    now_.seconds = seconds_between(start_, told_);
    if (progress_) progress_(now_);
  }

  const Progress& progress_;
  LoadProgress now_;
  Time start_ = Clock::now(), told_ = start_;
};

std::string show_bytes(int64_t bytes) {
  return bytes < 1'000'000'000 ? strf("%.1f MB", double(bytes) / 1e6)
                               : strf("%.1f GB", double(bytes) / 1e9);
}

Format format_of(const Recipe& recipe, Role role, RawWeight::Kind kind) {
  switch (role) {
    case Role::attention: return recipe.attention;
    case Role::unembedding: return recipe.unembedding;
    case Role::expert: break;
  }
  return kind == RawWeight::Kind::mxfp4 ? recipe.expert : recipe.expert_bf16;
}

// The sizes of a matrix, as far as the list of weights and the recipe say.
Weight shape_of(const WeightRow& row, const PackedWeight& packed, RawWeight::Kind kind,
                const Recipe& recipe) {
  const size_t rank = row.shape.size();
  return {.format = format_of(recipe, packed.role, kind),
          .experts = rank < 3 ? 1 : int(row.shape[0]),
          .rows = int(row.shape[rank - 2]),
          .columns = int(row.shape[rank - 1])};
}

Tensor shape_of(const WeightRow& row, const PlainWeight& plain) {
  Tensor tensor(nullptr, plain.keep, {});
  tensor.rank = int(row.shape.size());
  std::copy(row.shape.begin(), row.shape.end(), tensor.dims.begin());
  return tensor;
}

int64_t bytes_in_memory(const WeightRow& row, RawWeight::Kind kind, const Recipe& recipe,
                        const Ops& ops) {
  if (const auto* plain = std::get_if<PlainWeight>(&row.into)) return shape_of(row, *plain).bytes();
  const Weight w = shape_of(row, std::get<PackedWeight>(row.into), kind, recipe);
  return ops.weight_bytes(w.format, w.experts, w.rows, w.columns);
}

// Matrices of a file on their way to a device: all threads copy one into pinned memory while the device
// packs the one before. Where the device is the host itself, they are packed from where they are.
class Sending {
 public:
  explicit Sending(Stream& stream) : stream_(stream) {
    const Device& device = *stream.device;
    if (!device.make_event) return;
    for (Piece& piece : pieces_) piece = {HostBuffer(device), device.make_event()};
  }
  Sending(const Sending&) = delete;
  ~Sending() {
    for (Piece& piece : pieces_) {
      if (!piece.sent) continue;
      stream_.device->await_event(piece.sent);
      stream_.device->release_event(piece.sent);
    }
  }

  Result<RawWeight> take(RawWeight raw) {
    if (!stream_.device->make_event) return raw;
    const int64_t values = int64_t(raw.experts) * raw.rows * raw.columns;
    const bool mxfp4 = raw.kind == RawWeight::Kind::mxfp4;
    const int64_t bytes = mxfp4 ? values / 2 : values * 2;
    const int64_t scales = mxfp4 ? values / kMxBlock : 0;
    HostBuffer& buffer = pieces_[next_].buffer;
    stream_.device->await_event(pieces_[next_].sent);
    TRY(buffer.reserve(bytes + scales));
    const auto copy = [&](uint8_t* to, const uint8_t* from, int64_t count) {
      stream_.threads->parallel_for(count, 1 << 16, [&](int64_t begin, int64_t end) {
        std::memcpy(to + begin, from + begin, size_t(end - begin));
      });
    };
    copy(buffer.data(), raw.values, bytes);
    if (mxfp4) copy(buffer.data() + bytes, raw.scales, scales);
    raw.values = buffer.data();
    raw.scales = mxfp4 ? buffer.data() + bytes : nullptr;
    return raw;
  }
  // What was taken last has been put on the stream.
  void sent() {
    if (!stream_.device->make_event) return;
    stream_.device->record_event(stream_, pieces_[next_].sent);
    next_ = 1 - next_;
  }

 private:
  struct Piece {
    HostBuffer buffer;
    Event* sent = nullptr;
  };
  Stream& stream_;
  Piece pieces_[2];
  int next_ = 0;
};

// What fills the rows, whichever source the values come from.
struct Filler {
  const Recipe& recipe;
  Stream& stream;
  const Ops& ops;
  LoadedModel& loaded;
  Phase& phase;
  int64_t* inexact;  // [rows], on the device: the census
  Sending sending{stream};

  Result<void*> allocate(int64_t bytes) {
    loaded.memory.push_back(TRY(Buffer::allocate(*ops.device, bytes)));
    loaded.weight_bytes += bytes;
    return loaded.memory.back().data();
  }

  template <class Source>
  Status fill(Source& source, size_t index, const WeightRow& row, const PackedWeight& packed) {
    Weight& to = *packed.into;
    to = shape_of(row, packed, source.kind(index), recipe);
    to.data = TRY(allocate(ops.weight_bytes(to.format, to.experts, to.rows, to.columns)));
    for (int expert = 0; expert < to.experts; ++expert) {
      RawWeight raw = TRY(source.matrix(index, expert));
      if (!raw.on_device) raw = TRY(sending.take(raw));
      ops.pack(stream, {.to = to, .from = raw, .first_expert = expert, .inexact = inexact + index});
      if (!raw.on_device) sending.sent();
      source.drop(index, expert);
      phase.add(source.bytes(index) / to.experts);
    }
    return Done{};
  }

  template <class Source>
  Status fill(Source& source, size_t index, const WeightRow& row, const PlainWeight& plain) {
    Tensor& to = *plain.into;
    to = shape_of(row, plain);
    to.data = TRY(allocate(to.bytes()));

    constexpr int64_t kChunk = 1 << 23;  // values at a time
    std::vector<bf16> values;
    std::vector<float> widened;
    for (int64_t first = 0; first < to.elements(); first += kChunk) {
      values.resize(size_t(std::min(kChunk, to.elements() - first)));
      source.values(index, first, values, *stream.threads);
      const void* from = values.data();
      if (plain.keep == DType::f32) {
        widened.resize(values.size());
        std::transform(values.begin(), values.end(), widened.begin(),
                       [](bf16 value) { return to_f32(value); });
        from = widened.data();
      }
      const int64_t width = bytes_of(plain.keep);
      ops.device->upload(stream, static_cast<char*>(to.data) + first * width, from,
                         int64_t(values.size()) * width);
      ops.device->synchronize(stream);
      phase.add(int64_t(values.size() * sizeof(bf16)));
    }
    for (int expert = 0; expert < (row.shape.size() < 3 ? 1 : int(row.shape[0])); ++expert)
      source.drop(index, expert);
    return Done{};
  }
};

// Reads the counts of the census back.
template <class Source>
void take_census(const Source& source, const std::vector<WeightRow>& rows, const Buffer& counts,
                 Stream& stream, LoadedModel& loaded) {
  std::vector<int64_t> inexact(rows.size());
  stream.device->download(stream, inexact.data(), counts.data(), counts.bytes());
  stream.device->synchronize(stream);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!std::holds_alternative<PackedWeight>(rows[i].into)) continue;
    if (source.kind(i) != RawWeight::Kind::mxfp4) continue;
    int64_t blocks = 1;
    for (const int64_t size : rows[i].shape) blocks *= size;
    loaded.census.push_back({rows[i].name, blocks / kMxBlock, inexact[i]});
  }
}

// Fills every row from a Checkpoint or from DummyWeights.
template <class Source>
Status fill_rows(Source& source, const std::vector<WeightRow>& rows, const Recipe& recipe,
                 Stream& stream, const Ops& ops, const Progress& progress, LoadedModel& loaded) {
  // The largest first: what a row needs beside its packed form never comes on top of all the rest.
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return source.bytes(a) > source.bytes(b); });
  int64_t total = 0, needed = 0;
  for (const size_t index : order) {
    total += source.bytes(index);
    needed += bytes_in_memory(rows[index], source.kind(index), recipe, ops);
  }
  // Said before anything is read: the system would rather end the process than refuse memory.
  if (const int64_t free = ops.device->free_bytes(); needed > free)
    return fail(ErrorKind::io,
                strf("the weights take %s in recipe %s, %s has %s free", show_bytes(needed).c_str(),
                     recipe.name, ops.device->name, show_bytes(free).c_str()));

  const Buffer counts = TRY(Buffer::allocate(*ops.device, int64_t(rows.size() * sizeof(int64_t))));
  ops.device->zero(stream, counts.data(), counts.bytes());
  Phase phase(progress, "weights", total);
  Filler filler{recipe, stream, ops, loaded, phase, static_cast<int64_t*>(counts.data())};
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t index = order[i];
    if (i == 0) source.expect(index);
    if (i + 1 < order.size()) source.expect(order[i + 1]);  // read while this one is packed
    TRY(within(
        std::visit([&](const auto& into) { return filler.fill(source, index, rows[index], into); },
                   rows[index].into),
        rows[index].name));
  }
  ops.device->synchronize(stream);
  phase.end();
  take_census(source, rows, counts, stream, loaded);
  return Done{};
}

Result<LoadedModel> load(const LoadOptions& options, const std::string& place, const Recipe& recipe,
                         Stream& stream, const Ops& ops, const Progress& progress) {
  LoadedModel loaded;
  loaded.recipe = &recipe;
  loaded.ops = &ops;
  Phase headers(progress, "headers");
  ModelConfig config = TRY(read_config(place));
  if (options.layers > 0 && options.layers < config.layers) {
    config.layers = options.layers;
    config.sliding_layer.resize(size_t(options.layers));
  }
  loaded.model = TRY(make_model(config));
  const std::vector<WeightRow> rows = loaded.model->weights();

  if (options.load_format == "dummy") {
    headers.end();
    DummyWeights weights(rows, options.seed, ops, stream);
    TRY(fill_rows(weights, rows, recipe, stream, ops, progress, loaded));
  } else {
    Checkpoint checkpoint = TRY(Checkpoint::open(place, config));
    TRY(checkpoint.bind(rows));
    headers.end();
    TRY(fill_rows(checkpoint, rows, recipe, stream, ops, progress, loaded));
  }
  TRY(loaded.model->prepare(stream));
  return loaded;
}

}  // namespace

Result<LoadedModel> load_model(const LoadOptions& options, const Recipe& recipe, Stream& stream,
                               const Ops& ops, const Progress& progress) {
  namespace fs = std::filesystem;
  if (options.load_format != "auto" && options.load_format != "dummy")
    return fail(ErrorKind::invalid,
                strf("no load format '%s'; there are: auto, dummy", options.load_format.c_str()));
  if (!keeps(ops, recipe))
    return fail(ErrorKind::unsupported,
                strf("recipe %s: %s has no kernels for its formats", recipe.name, ops.name));
  // Dummy weights need no folder: the file with the sizes is enough.
  std::error_code ignored;
  const bool is_file =
      options.load_format == "dummy" && fs::is_regular_file(options.model, ignored);
  const std::string place = is_file ? options.model : TRY(resolve_model(options.model));
  LoadedModel loaded =
      TRY(within(load(options, place, recipe, stream, ops, progress), "loading " + place));
  loaded.folder = is_file ? fs::path(place).parent_path().string() : place;
  return loaded;
}

}  // namespace rose
