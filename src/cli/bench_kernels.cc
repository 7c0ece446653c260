// rose bench kernels: the ops of a step, each timed by itself on the numbers that it met there. A few layers of
// a model are run once, every call is remembered (op_recorder.h), and calls of the same op and shape, one of each
// layer, are run again and again: each has weights of its own, so that they do not stay in a cache.
#include "cli/bench_kernels.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/clock.h"
#include "base/rng.h"
#include "cli/draw_options.h"
#include "cli/op_recorder.h"
#include "cli/session.h"
#include "cli/step_times.h"
#include "cli/table.h"
#include "device/host_buffer.h"
#include "engine/batch.h"
#include "tensor/bf16.h"

namespace rose {

namespace {

struct KernelOptions {
  ModelOptions model;
  std::vector<int> batch = {1, 8, 32, 128};
  int context = 2048;
  std::vector<int> prefill = {2048};
  std::string ops;
  DrawOptions draw;
  int layers = 6;
  int repeats = 5;
  std::string output = "table";

  template <class Visit>
  void each(Visit&& visit) {
    model.each(visit);
    visit("--batch,--batch-size", batch, "sequences that decode together, with commas between");
    visit("--context", context, "tokens in the cache of each of them");
    visit("--prefill,--input-len", prefill, "lengths of a prompt; 0: none");
    visit("--ops", ops, "only those whose name is in this text: matmul,experts");
    draw.each(visit);
    visit("--layers", layers,
          "of the model, run and timed in turn: their weights must not fit into a cache");
    visit("--repeats,--num-iters", repeats, "timed runs of each; the median is shown");
    visit("--output,-o", output, "table, md, csv or json");
  }
};

// `seqs` sequences feed `count` tokens each, after `position` others.
struct StepOf {
  std::string name;
  int seqs, count, position;
};

HostBatch make_batch(const StepOf& step, int vocab) {
  HostBatch batch;
  batch.width = (step.position + step.count - 1) / kPageSize + 1;
  batch.first = {0};
  for (int seq = 0; seq < step.seqs; ++seq) {
    for (int i = 0; i < step.count; ++i) {
      batch.token_ids.push_back(int32_t(random_bits(1, batch.token_ids.size()) % uint64_t(vocab)));
      batch.positions.push_back(step.position + i);
      batch.sequence.push_back(seq);
    }
    batch.first.push_back(int32_t(batch.token_ids.size()));
    batch.sampled.push_back(int32_t(batch.token_ids.size()) - 1);
  }
  for (std::vector<int32_t>& table : batch.pages) {
    table.resize(size_t(step.seqs * batch.width));
    std::iota(table.begin(), table.end(), 0);
  }
  return batch;
}

// Keys and values of about the size that a norm leaves: zeros would multiply faster than numbers do.
void fill(Stream& stream, const KvCache& kv, int layers) {
  std::vector<float> numbers(1 << 20);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 2 * random_unit(2, i) - 1;
  std::vector<bf16> rounded;
  for (const float number : numbers) rounded.push_back(to_bf16(number));
  for (int layer = 0; layer < layers; ++layer) {
    const Tensor& pages = kv.layer(layer).pages;
    const bool is_bf16 = pages.dtype == DType::bf16;
    const void* from = is_bf16 ? static_cast<const void*>(rounded.data()) : numbers.data();
    const int64_t piece = int64_t(numbers.size()) * bytes_of(pages.dtype);
    for (int64_t at = 0; at < pages.bytes(); at += piece)
      stream.device->upload(stream, static_cast<char*>(pages.data) + at, from,
                            std::min(piece, pages.bytes() - at));
  }
  stream.device->synchronize(stream);
}

struct Timing {
  double seconds;  // of one call, the median
  double spread;
};

// All calls in turn, as a graph where the device has them; as often as it takes to see a clock move.
Timing time_calls(Stream& stream, const std::vector<const RecordedOp*>& calls, int repeats) {
  constexpr double kEnough = 0.02;  // of calls launched one by one; a graph takes less
  constexpr double kMostCalls = 1000;
  const Device& device = *stream.device;
  const auto run = [&](int rounds) {
    for (int round = 0; round < rounds; ++round)
      for (const RecordedOp* call : calls) {
        const Arena::Mark mark = stream.scratch->mark();
        call->run(stream);
        stream.scratch->rewind(mark);  // a step would go on with what is left
      }
  };
  run(1);  // what is allocated at first is allocated now
  device.synchronize(stream);
  const Time once = Clock::now();
  run(1);
  device.synchronize(stream);
  const double most = std::max(1.0, kMostCalls / double(calls.size()));
  const int rounds = int(std::clamp(kEnough / seconds_since(once), 1.0, most));

  Graph* graph = nullptr;
  if (device.begin_graph) {
    device.begin_graph(stream);
    run(rounds);
    graph = device.end_graph(stream);
  }
  std::vector<double> seconds;
  for (int i = 0; i <= repeats; ++i) {
    const Time start = Clock::now();
    graph ? device.run_graph(stream, graph) : run(rounds);
    device.synchronize(stream);
    if (i > 0) seconds.push_back(seconds_since(start) / (rounds * double(calls.size())));
  }
  if (graph) device.release_graph(graph);
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  return {median, (seconds.back() - seconds.front()) / median};
}

// Of calls of the same op and shape: the mean of what they must move and compute.
struct Group {
  std::vector<const RecordedOp*> calls;
  double bytes = 0, flops = 0;
};

std::vector<Group> group(const std::vector<RecordedOp>& calls, const std::string& wanted) {
  std::vector<Group> groups;
  for (const RecordedOp& call : calls) {
    if (!wanted.empty() && wanted.find(call.name) == std::string::npos) continue;
    const auto same = [&](const Group& group) {
      return group.calls[0]->name == call.name && group.calls[0]->shape == call.shape;
    };
    auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end()) found = groups.insert(groups.end(), Group{});
    found->calls.push_back(&call);
  }
  for (Group& group : groups) {
    for (const RecordedOp* call : group.calls)
      group.bytes += double(call->cost.bytes), group.flops += double(call->cost.flops);
    group.bytes /= double(group.calls.size()), group.flops /= double(group.calls.size());
  }
  return groups;
}

// What a step ends with. `results` is where the device writes what was drawn, whenever the op is run again.
Status sample(const Ops& ops, Stream& stream, const Tensor& logits, int vocab,
              const SampleRow& like, HostBuffer& results) {
  const size_t count = size_t(logits.dims[0]);
  TRY(results.reserve(int64_t(count * sizeof(Sampled))));
  std::vector<SampleRow> rows(count, like);
  for (size_t row = 0; row < count; ++row)
    rows[row].seed = row, rows[row].result = reinterpret_cast<Sampled*>(results.data()) + row;
  const int64_t bytes = int64_t(count * sizeof(SampleRow));
  void* const there = stream.scratch->take(DType::u8, {bytes}).data;
  stream.device->upload(stream, there, rows.data(), bytes);
  ops.sample(stream, {.tokens = stream.scratch->take(DType::i32, {logits.dims[0]}),
                      .logits = logits,
                      .rows = static_cast<const SampleRow*>(there),
                      .vocab = vocab});
  stream.device->synchronize(stream);
  return Done{};
}

Status time_step(Runtime& runtime, const StepOf& step, const KernelOptions& options, double read,
                 Table& table) {
  Stream& stream = runtime.stream;
  const HostBatch host = make_batch(step, runtime.config().vocab);
  const int pages = step.seqs * host.width;
  const KvCache kv = TRY(KvCache::allocate(
      *stream.device, runtime.loaded.model->kv_spec(runtime.loaded.recipe->kv), {pages, pages}));
  fill(stream, kv, runtime.config().layers);
  stream.scratch->reset();
  const Batch batch = upload(stream, host);
  const int64_t reach = step.position + step.count;
  OpRecorder recorder(*runtime.loaded.ops, step.position + (step.count + 1) / 2, step.seqs * reach);
  Pass pass = {.ops = recorder.table(),
               .stream = stream,
               .kv = kv,
               .batch = batch,
               .activations = runtime.loaded.recipe->activations,
               .keep = true};
  const Tensor logits = runtime.loaded.model->forward(pass);
  HostBuffer results(*stream.device);
  TRY(sample(recorder.table(), stream, logits, runtime.config().vocab, options.draw.row(),
             results));
  stream.device->synchronize(stream);

  // The last first: what is run again changes only what was timed before. (An op that works in place, such as a
  // norm, would feed others, and the router choose, what no step ever sees.)
  const std::vector<Group> groups = group(recorder.calls, options.ops);
  std::vector<Timing> times(groups.size());
  for (size_t i = groups.size(); i-- > 0;)
    times[i] = time_calls(stream, groups[i].calls, options.repeats);

  for (size_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i];
    const RecordedOp& op = *group.calls[0];
    const Timing time = times[i];
    const double bytes_per_s = group.bytes / time.seconds;
    const double flops_per_s = group.flops / time.seconds;
    const double peak = stream.device->peak_flops * (op.e4m3 ? 1 : 0.5);
    const double ceiling = std::max(bytes_per_s / read, peak > 0 ? flops_per_s / peak : 0);
    table.row({step.name, op.name, op.shape, std::to_string(group.calls.size()),
               strf("%.2f", time.seconds * 1e6), strf("%.1f %%", time.spread * 100),
               strf("%.1f", bytes_per_s / 1e9), strf("%.2f", flops_per_s / 1e12),
               strf("%.0f %%", ceiling * 100)});
  }
  return Done{};
}

}  // namespace

Status bench_kernels(Arguments arguments) {
  KernelOptions options;
  const CommandHelp help = {
      "bench kernels", "The time of each op of a step by itself.",
      "  rose bench kernels\n"
      "  rose bench kernels config-of-20b/ --load-format dummy --batch 1,128 --context 2048\n"
      "  rose bench kernels config-of-20b/ --load-format dummy --ops experts -o csv\n"
      "  rose bench kernels config-of-20b/ --load-format dummy --ops sample --temperature 1 "
      "--top-p 0.9\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  for (const int value : options.batch)
    if (value < 1) return fail(ErrorKind::usage, strf("--batch: %d, wanted 1 or more", value));
  for (const int value : options.prefill)
    if (value < 0) return fail(ErrorKind::usage, strf("--prefill: %d, wanted 0 or more", value));
  if (options.context < 1 || options.layers < 1 || options.repeats < 1)
    return fail(ErrorKind::usage, "--context, --layers, --repeats: wanted 1 or more");
  Table table({"step", "op", "shape", "calls", "us", "spread", "GB/s", "TFLOP/s", "of ceiling"});
  TRY(table.choose(options.output));

  options.model.layers = options.layers;
  const double read_of_host = measure_read_bandwidth(options.model.threads);
  const std::unique_ptr<Runtime> runtime = TRY(open_runtime(options.model));
  const Device& device = *runtime->stream.device;
  const double read = device.measure_read ? device.measure_read(runtime->stream) : read_of_host;
  for (const int batch : options.batch)
    TRY(time_step(*runtime,
                  {strf("decode %d @ %d", batch, options.context), batch, 1, options.context - 1},
                  options, read, table));
  for (const int tokens : options.prefill)
    if (tokens > 0)
      TRY(time_step(*runtime, {strf("prefill %d", tokens), 1, tokens, 0}, options, read, table));
  table.print({{"model", runtime->loaded.folder},
               {"backend", runtime->loaded.ops->name},
               {"recipe", runtime->loaded.recipe->name},
               {"layers", std::to_string(runtime->config().layers)},
               {"read_gb_per_s", strf("%.1f", read / 1e9)},
               {"peak_tflops", strf("%.0f", device.peak_flops / 1e12)}});
  return Done{};
}

}  // namespace rose
