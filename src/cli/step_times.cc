#include "cli/step_times.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "base/rng.h"
#include "engine/decode_graphs.h"
#include "kernels/sample/sample.h"
#include "model/cost.h"

namespace rose {

namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int pages_for(int tokens) { return (tokens + kPageSize - 1) / kPageSize; }

// The cache of a benchmark: sequence s has pages of its own, all filled with zeros.
struct BenchCache {
  KvCache kv;
  std::vector<int> tables[kPools];  // [seqs, width]
  int width = 0;
};

Result<BenchCache> make_cache(Runtime& runtime, int seqs, int tokens) {
  BenchCache cache;
  cache.width = pages_for(tokens);
  const int pages = seqs * cache.width;
  cache.kv = TRY(KvCache::allocate(*runtime.stream.device,
                                   runtime.loaded.model->kv_spec(runtime.loaded.recipe->kv),
                                   {pages, pages}));
  for (std::vector<int>& table : cache.tables) {
    table.resize(size_t(pages));
    std::iota(table.begin(), table.end(), 0);
  }
  return cache;
}

// One step: sequence s feeds `count` tokens from `position` on; every sequence samples.
HostBatch make_step(const Runtime& runtime, const BenchCache& cache, int seqs, int count,
                    int position, uint64_t key) {
  HostBatch batch;
  batch.width = cache.width;
  batch.first = {0};
  for (int s = 0; s < seqs; ++s) {
    for (int i = 0; i < count; ++i) {
      const uint64_t bits = random_bits(key, batch.token_ids.size());
      batch.token_ids.push_back(int32_t(bits % uint64_t(runtime.config().vocab)));
      batch.positions.push_back(position + i);
      batch.sequence.push_back(s);
    }
    batch.first.push_back(int32_t(batch.token_ids.size()));
    batch.sampled.push_back(int32_t(batch.token_ids.size()) - 1);
  }
  for (int pool = 0; pool < kPools; ++pool) batch.pages[pool] = cache.tables[pool];
  return batch;
}

// Runs it as the engine does: a decoding step from a graph, where the device has them.
void run_step(Runtime& runtime, DecodeGraphs& graphs, const BenchCache& cache,
              const HostBatch& step) {
  Stream& stream = runtime.stream;
  const Ops& ops = *runtime.loaded.ops;
  stream.scratch->reset();
  Tensor logits;
  if (graphs.takes(step)) {
    logits = graphs.forward(step);
  } else {
    const Batch batch = upload(stream, step);
    Pass pass = {.ops = ops,
                 .stream = stream,
                 .kv = cache.kv,
                 .batch = batch,
                 .activations = runtime.loaded.recipe->activations};
    logits = runtime.loaded.model->forward(pass);
  }
  const std::vector<SampleRow> rows(step.sampled.size(), SampleRow{.temperature = 0});
  std::vector<Sampled> results(rows.size());
  ops.sample(stream,
             {.logits = logits, .vocab = runtime.config().vocab, .rows = rows, .results = results});
  stream.device->synchronize(stream);
}

template <class Body>
std::vector<double> time_repeats(int warmup, int repeats, const Body& body) {
  std::vector<double> seconds;
  for (int i = 0; i < warmup + repeats; ++i) {
    const double start = now_seconds();
    body(uint64_t(i));
    if (i >= warmup) seconds.push_back(now_seconds() - start);
  }
  return seconds;
}

}  // namespace

double StepTimes::median_s() const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

double StepTimes::spread() const {
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  return (*most - *least) / median_s();
}

Result<StepTimes> time_prefill(Runtime& runtime, int tokens, int chunk, int warmup, int repeats) {
  const BenchCache cache = TRY(make_cache(runtime, 1, tokens));
  StepTimes times;
  for (int at = 0; at < tokens; at += chunk) {
    const int count = std::min(chunk, tokens - at);
    const Cost cost = step_cost(runtime.config(), *runtime.loaded.recipe, *runtime.loaded.ops,
                                {.tokens = count, .sampled = 1, .context = at + count / 2});
    times.cost.bytes += cost.bytes;
    times.cost.flops += cost.flops;
  }
  DecodeGraphs graphs(runtime.loaded, cache.kv, runtime.stream);
  times.seconds = time_repeats(warmup, repeats, [&](uint64_t key) {
    for (int at = 0; at < tokens; at += chunk)
      run_step(runtime, graphs, cache,
               make_step(runtime, cache, 1, std::min(chunk, tokens - at), at, key));
  });
  return times;
}

Result<StepTimes> time_decode(Runtime& runtime, int batch, int context, int warmup, int repeats) {
  const BenchCache cache = TRY(make_cache(runtime, batch, context));
  StepTimes times;
  times.cost = step_cost(runtime.config(), *runtime.loaded.recipe, *runtime.loaded.ops,
                         {.tokens = batch, .sampled = batch, .context = context, .seqs = batch});
  DecodeGraphs graphs(runtime.loaded, cache.kv, runtime.stream);
  times.seconds = time_repeats(warmup, repeats, [&](uint64_t key) {
    run_step(runtime, graphs, cache, make_step(runtime, cache, batch, 1, context - 1, key));
  });
  return times;
}

namespace {

// Wide loads into eight registers: with less a core waits for its own additions, not for the memory.
using Words = uint64_t __attribute__((vector_size(32)));

[[gnu::always_inline]] inline uint64_t read_words(const Words* words, int64_t count) {
  Words sums[8] = {};
  for (int64_t i = 0; i + 8 <= count; i += 8) {
    for (int ahead = 128; ahead < 136; ahead += 2)  // 4 KiB: hardware does not look past a page
      __builtin_prefetch(words + i + ahead);
    for (int lane = 0; lane < 8; ++lane) sums[lane] ^= words[i + lane];
  }
  for (int lane = 1; lane < 8; ++lane) sums[0] ^= sums[lane];
  return sums[0][0] ^ sums[0][1] ^ sums[0][2] ^ sums[0][3];
}

[[gnu::target("avx2")]] uint64_t read_avx2(const Words* words, int64_t count) {
  return read_words(words, count);
}

uint64_t read_plain(const Words* words, int64_t count) { return read_words(words, count); }

}  // namespace

double measure_read_bandwidth(int thread_count) {
  ThreadPool threads(std::max(thread_count, 0));
  constexpr int64_t kBytes = int64_t(2) << 30;
  const Result<Buffer> buffer = Buffer::allocate(host_device(), kBytes);
  if (!buffer) return 0;
  auto* bytes = static_cast<uint8_t*>(buffer->data());
  threads.parallel_for(kBytes, 1 << 20, [&](int64_t begin, int64_t end) {
    std::memset(bytes + begin, 1, size_t(end - begin));  // pages never written read as one page
  });
  const auto read = __builtin_cpu_supports("avx2") ? read_avx2 : read_plain;
  double best = 1e30;
  for (int repeat = 0; repeat < 6; ++repeat) {
    const double start = now_seconds();
    threads.parallel_for(kBytes, 1 << 20, [&](int64_t begin, int64_t end) {
      const volatile uint64_t keep = read(reinterpret_cast<const Words*>(bytes + begin),
                                          (end - begin) / int64_t(sizeof(Words)));
      (void)keep;
    });
    best = std::min(best, now_seconds() - start);
  }
  return double(kBytes) / best;
}

}  // namespace rose
