#include "api/metrics_values.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>

#include "api/metrics.h"
#include "base/check.h"
#include "cache/kv_cache.h"

namespace rose {

using prometheus::ClientMetric;
using prometheus::MetricType;

ClientMetric& Values::add_metric(const char* name, const char* help, MetricType type,
                                 const Labels& labels) {
  if (families.empty() || families.back().name != name) families.push_back({name, help, type, {}});
  ClientMetric metric;
  if (std::string_view(name).find(':') != std::string_view::npos)
    for (const auto& [label, value] : common_) metric.label.push_back({label, value});
  for (const auto& [label, value] : labels) metric.label.push_back({label, value});
  families.back().metric.push_back(std::move(metric));
  return families.back().metric.back();
}

void Values::add(const char* name, const char* help, MetricType type, double value,
                 const Labels& labels) {
  ClientMetric& metric = add_metric(name, help, type, labels);
  metric.gauge.value = metric.counter.value = value;
}

void Values::histogram(const char* name, const char* help, std::span<const int> bounds,
                       std::span<const int64_t> counts, double sum) {
  ClientMetric& metric = add_metric(name, help, MetricType::Histogram, {});
  uint64_t count = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    count += uint64_t(counts[i]);
    metric.histogram.bucket.push_back(
        {.cumulative_count = count,
         .upper_bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity()});
  }
  metric.histogram.sample_count = count;
  metric.histogram.sample_sum = sum;
}

double kv_usage(const EngineStats& stats) {
  double most = 0;
  for (int pool = 0; pool < kPools; ++pool)
    if (stats.pages[pool] > 0)
      most = std::max(
          most, double(stats.pages[pool] - stats.pages_free[pool] - stats.pages_cached[pool]) /
                    stats.pages[pool]);
  return most;
}

double saturation(const EngineStats& stats) {
  const double seqs =
      stats.max_seqs > 0 ? double(stats.running + stats.waiting) / stats.max_seqs : 0;
  return std::min(1.0, std::max(kv_usage(stats), seqs));
}

namespace {

void page_values(const EngineStats& stats, Values& values) {
  const char* pools[kPools] = {"full", "sliding"};
  for (int pool = 0; pool < kPools; ++pool) {
    const int free = stats.pages_free[pool], cached = stats.pages_cached[pool];
    const std::pair<const char*, int> states[] = {
        {"free", free}, {"cached", cached}, {"held", stats.pages[pool] - free - cached}};
    for (const auto& [state, count] : states)
      values.gauge("rose:kv_pages", "Pages of keys and values, by pool and state.", count,
                   {{"group", pools[pool]}, {"state", state}});
  }
  values.gauge("vllm:cache_config_info", "Sizes of the KV memory.", 1,
               {{"block_size", std::to_string(kPageSize)},
                {"num_gpu_blocks", std::to_string(stats.pages[int(Pool::full)])}});
}

}  // namespace

void engine_values(const EngineStats& stats, Values& values) {
  values.gauge("vllm:num_requests_running", "Sequences that are being computed.", stats.running);
  values.gauge("vllm:num_requests_waiting", "Sequences in the queue.", stats.waiting);
  values.gauge("vllm:kv_cache_usage_perc", "Share of the KV pages in use, 0 to 1.",
               kv_usage(stats));
  values.gauge("vllm:gpu_cache_usage_perc", "The older name of kv_cache_usage_perc.",
               kv_usage(stats));
  values.gauge("rose:queue_requests", "Requests that have not begun.", stats.waiting_requests);
  values.gauge("rose:queue_tokens", "Tokens of their prompts.", double(stats.waiting_tokens));
  values.gauge("rose:saturation", "The fuller of sequences and pages, 0 to 1.", saturation(stats));
  page_values(stats, values);
  values.gauge("vllm:lora_requests_info", "Adapters in use: none, always.",
               double(std::time(nullptr)),
               {{"max_lora", "0"}, {"running_lora_adapters", ""}, {"waiting_lora_adapters", ""}});
  values.counter("vllm:prompt_tokens_total", "Prompt tokens computed.",
                 double(stats.prompt_tokens));
  values.counter("vllm:generation_tokens_total", "Tokens generated.",
                 double(stats.generated_tokens));
  values.counter("vllm:num_preemptions_total", "Sequences that gave way and were computed again.",
                 double(stats.preemptions));
  const char* queries = "Tokens looked up in the prefix cache.";
  const char* hits = "Tokens found in the prefix cache.";
  values.counter("vllm:prefix_cache_queries_total", queries, double(stats.prefix_queries));
  values.counter("vllm:prefix_cache_hits_total", hits, double(stats.prefix_hits));
  values.counter("vllm:gpu_prefix_cache_queries_total", queries, double(stats.prefix_queries));
  values.counter("vllm:gpu_prefix_cache_hits_total", hits, double(stats.prefix_hits));
  values.counter("rose:steps_total", "Steps of the engine.", double(stats.steps));
  values.histogram("vllm:iteration_tokens_total", "Tokens of a step.", kStepTokenBuckets,
                   stats.steps_by_tokens, double(stats.step_tokens));
}

void startup_values(const Startup& startup, Values& values) {
  const Startup::View view = startup.view();
  values.gauge("rose:ready", "Whether the model is loaded.", view.ready);
  values.gauge("rose:startup_seconds", "From the start until it was, or until now.", view.seconds);
  for (const auto& [phase, seconds] : view.phases)
    values.gauge("rose:startup_phase_seconds", "The time that each part of it took.", seconds,
                 {{"phase", phase}});
}

// By the names of keys, which are as many as the keys file has.
void key_values(const Keys& keys, Values& values) {
  const auto tenants = keys.tenants();
  for (const auto& tenant : tenants)
    values.gauge("rose:key_requests_active", "Generations at work or waiting, by key.",
                 tenant->usage().active, {{"key", tenant->name()}});
  for (const auto& tenant : tenants)
    values.counter("rose:key_requests_total", "Requests, by key.", double(tenant->usage().requests),
                   {{"key", tenant->name()}});
  for (const auto& tenant : tenants)
    values.counter("rose:key_refused_total", "Requests beyond a limit, by key.",
                   double(tenant->usage().refused), {{"key", tenant->name()}});
  for (const auto& tenant : tenants) {
    const Tenant::Usage usage = tenant->usage();
    const char* help = "Tokens of requests that have ended, by key.";
    values.counter("rose:key_tokens_total", help, double(usage.prompt_tokens),
                   {{"key", tenant->name()}, {"kind", "prompt"}});
    values.counter("rose:key_tokens_total", help, double(usage.generated_tokens),
                   {{"key", tenant->name()}, {"kind", "generation"}});
  }
}

void process_values(Values& values) {
  static const double started = double(std::time(nullptr));
  const double page = double(sysconf(_SC_PAGESIZE));
  double virtual_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> virtual_pages >> resident_pages;
  values.gauge("process_virtual_memory_bytes", "Virtual memory.", virtual_pages * page);
  values.gauge("process_resident_memory_bytes", "Resident memory.", resident_pages * page);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return double(time.tv_sec) + 1e-6 * double(time.tv_usec);
  };
  values.counter("process_cpu_seconds_total", "User and system time.",
                 seconds(usage.ru_utime) + seconds(usage.ru_stime));
  values.gauge("process_start_time_seconds", "When it began, in seconds since 1970.", started);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  values.gauge("process_max_fds", "File descriptors possible.", double(limit.rlim_cur));
  std::error_code error;
  int open = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error))
    ++open;
  values.gauge("process_open_fds", "File descriptors open.", open);
}

}  // namespace rose
