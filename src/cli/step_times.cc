#include "cli/step_times.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/clock.h"
#include "base/rng.h"
#include "engine/launcher.h"
#include "model/cost.h"

namespace rose {

namespace {

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
    batch.rows.push_back({.temperature = 0});
  }
  for (int pool = 0; pool < kPools; ++pool) batch.pages[pool] = cache.tables[pool];
  return batch;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

Result<std::unique_ptr<Launcher>> make_launcher(Runtime& runtime, const BenchCache& cache,
                                                int samples) {
  return Launcher::make(
      runtime.loaded, cache.kv, runtime.stream,
      {.vocab = runtime.config().vocab, .most_samples = samples, .trace = runtime.trace.get()});
}

}  // namespace

double StepTimes::median_s() const { return median(seconds); }

double StepTimes::median_device_s() const { return median(device_seconds); }

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
  const auto launcher = TRY(make_launcher(runtime, cache, 1));
  for (int i = 0; i < warmup + repeats; ++i) {
    const Time start = Clock::now();
    double device = 0;
    int64_t under_way = -1;
    const auto land = [&] {
      if (under_way < 0) return;
      launcher->land(under_way);
      device += launcher->device_seconds(under_way);
    };
    for (int at = 0; at < tokens; at += chunk) {
      const int64_t next = launcher->launch(
          make_step(runtime, cache, 1, std::min(chunk, tokens - at), at, uint64_t(i)));
      land();
      under_way = next;
    }
    land();
    if (i < warmup) continue;
    times.seconds.push_back(seconds_since(start));
    times.device_seconds.push_back(device);
  }
  return times;
}

Result<StepTimes> time_decode(Runtime& runtime, int batch, int context, int warmup, int repeats) {
  const BenchCache cache = TRY(make_cache(runtime, batch, context));
  StepTimes times;
  times.cost = step_cost(runtime.config(), *runtime.loaded.recipe, *runtime.loaded.ops,
                         {.tokens = batch, .sampled = batch, .context = context, .seqs = batch});
  const auto launcher = TRY(make_launcher(runtime, cache, batch));
  Time before = {};
  int64_t under_way = -1;
  for (int i = 0; i <= warmup + repeats; ++i) {
    const int64_t next =
        launcher->launch(make_step(runtime, cache, batch, 1, context - 1, uint64_t(i)));
    if (under_way >= 0) launcher->land(under_way);
    const Time now = Clock::now();
    if (i > warmup) {
      times.seconds.push_back(seconds_between(before, now));
      times.device_seconds.push_back(launcher->device_seconds(under_way));
    }
    before = now;
    under_way = next;
  }
  launcher->land(under_way);
  return times;
}

namespace {

// Wide loads into eight registers: with less a core waits for its own additions, not for the memory.
using WideWords = uint64_t __attribute__((vector_size(32)));

[[gnu::always_inline]] inline uint64_t read_words(const WideWords* words, int64_t count) {
  WideWords sums[8] = {};
  for (int64_t i = 0; i + 8 <= count; i += 8) {
    for (int ahead = 128; ahead < 136; ahead += 2)  // 4 KiB: hardware does not look past a page
      __builtin_prefetch(words + i + ahead);
    for (int lane = 0; lane < 8; ++lane) sums[lane] ^= words[i + lane];
  }
  for (int lane = 1; lane < 8; ++lane) sums[0] ^= sums[lane];
  return sums[0][0] ^ sums[0][1] ^ sums[0][2] ^ sums[0][3];
}

[[gnu::target("avx2")]] uint64_t read_avx2(const WideWords* words, int64_t count) {
  return read_words(words, count);
}

uint64_t read_plain(const WideWords* words, int64_t count) { return read_words(words, count); }

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
    const Time start = Clock::now();
    threads.parallel_for(kBytes, 1 << 20, [&](int64_t begin, int64_t end) {
      const volatile uint64_t keep = read(reinterpret_cast<const WideWords*>(bytes + begin),
                                          (end - begin) / int64_t(sizeof(WideWords)));
      (void)keep;
    });
    best = std::min(best, seconds_since(start));
  }
  return double(kBytes) / best;
}

}  // namespace rose
