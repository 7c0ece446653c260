#include "api/stats_line.h"

#include <utility>

#include "api/metrics.h"
#include "base/check.h"

namespace rose {

std::string StatsLine::next(const EngineStats& stats, Time now) {
  const EngineStats before = std::exchange(last_, stats);
  const auto since = std::exchange(when_, now);
  const double seconds = seconds_between(since, now);
  if (since == Time() || seconds <= 0) return {};
  if (stats.steps == before.steps && stats.running + stats.waiting == 0) return {};
  const int64_t queries = stats.prefix_queries - before.prefix_queries;
  const int64_t hits = stats.prefix_hits - before.prefix_hits;
  return strf(
      "Engine 000: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f "
      "tokens/s, Running: %d reqs, Waiting: %d reqs, GPU KV cache usage: %.1f%%, Prefix cache hit "
      "rate: %.1f%%",
      double(stats.prompt_tokens - before.prompt_tokens) / seconds,
      double(stats.generated_tokens - before.generated_tokens) / seconds, stats.running,
      stats.waiting, 100 * kv_usage(stats), queries > 0 ? 100 * double(hits) / double(queries) : 0);
}

}  // namespace rose
