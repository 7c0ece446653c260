#include "engine/memory.h"

#include <algorithm>
#include <cmath>

#include "cache/prefix.h"

namespace rose {

namespace {

constexpr double kMiB = 1 << 20;
constexpr double kMostPages = 1 << 28;  // page numbers are ints

// Islands of the prefix cache: three sliding pages in a conversation of some 1,500 tokens.
constexpr double kIslandShare = 1.0 / 8;  // sliding pages for each full page

}  // namespace

Result<KvMemory> plan_kv(const KvSpec& spec, const EngineOptions& options, int model_context,
                         int64_t free_bytes) {
  const double full_bytes = double(spec.page_bytes(Pool::full));
  const double sliding_bytes = double(spec.page_bytes(Pool::sliding));
  const int window = std::max(spec.window, 1);
  const int context = options.max_context > 0 ? options.max_context : model_context;
  const double context_pages = (context + kPageSize - 1) / kPageSize;

  // What runs holds a window each, and for one step all that it feeds.
  const double running =
      double(options.max_seqs) * window_pages(window) + options.max_tokens_per_step / kPageSize + 1;
  const double wanted_full = std::min(options.max_seqs * context_pages, kMostPages);
  const double wanted_bytes =
      wanted_full * full_bytes + (running + wanted_full * kIslandShare) * sliding_bytes;
  // Unasked, half of what is free, or less if everything that may run at once needs less.
  const double budget =
      options.kv_bytes > 0 ? double(options.kv_bytes) : std::min(wanted_bytes, free_bytes * 0.5);

  double sliding = running;
  if (sliding * sliding_bytes > budget / 2)
    sliding = std::max(double(window_pages(window)), std::floor(budget / 2 / sliding_bytes));
  const double pair_bytes = full_bytes + kIslandShare * sliding_bytes;
  double full = wanted_full;
  if (pair_bytes > 0) full = std::floor((budget - sliding * sliding_bytes) / pair_bytes);
  full = std::min(full, kMostPages);

  const double least = options.max_context > 0 ? context_pages : 1;
  if (full < least)
    return fail(
        ErrorKind::invalid,
        strf("a context of %d tokens needs %.1f MiB for keys and values, there are %.1f MiB",
             int(std::min<double>(context, least * kPageSize)),
             (window_pages(window) * sliding_bytes + least * pair_bytes) / kMiB, budget / kMiB));

  KvMemory memory;
  memory.pages[int(Pool::full)] = int(full);
  memory.pages[int(Pool::sliding)] = int(std::min(sliding + full * kIslandShare, kMostPages));
  memory.max_context = int(std::min<double>(context, full * kPageSize));
  for (const Pool pool : {Pool::full, Pool::sliding})
    memory.bytes += memory.pages[int(pool)] * spec.page_bytes(pool);
  return memory;
}

}  // namespace rose
