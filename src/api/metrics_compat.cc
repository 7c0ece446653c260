// The engine's numbers under the names of other servers, for dashboards and gateways that know only these.
#include <algorithm>

#include "api/metrics.h"
#include "api/metrics_values.h"
#include "base/check.h"
#include "cache/kv_cache.h"

namespace rose {

namespace {

struct Alias {
  const char* server;
  const char* name;
  const char* help;
  bool counter;
  double (*value)(const EngineStats& stats);
};

double running(const EngineStats& stats) { return stats.running; }
double waiting(const EngineStats& stats) { return stats.waiting; }
double prompt_tokens(const EngineStats& stats) { return double(stats.prompt_tokens); }
double generated_tokens(const EngineStats& stats) { return double(stats.generated_tokens); }
double hit_rate(const EngineStats& stats) {
  return stats.prefix_queries > 0 ? double(stats.prefix_hits) / double(stats.prefix_queries) : 0;
}
double page_tokens(const EngineStats&) { return kPageSize; }
double pages(const EngineStats& stats) { return stats.pages[int(Pool::full)]; }
double steps(const EngineStats& stats) { return double(stats.steps); }

// clang-format off
constexpr Alias kAliases[] = {
    {"sglang", "sglang:num_running_reqs", "Sequences that are being computed.", false, running},
    {"sglang", "sglang:num_queue_reqs", "Sequences in the queue.", false, waiting},
    {"sglang", "sglang:token_usage", "Share of the KV pages in use, 0 to 1.", false, kv_usage},
    {"sglang", "sglang:cache_hit_rate", "Share of the prompts' tokens found in the prefix cache.", false, hit_rate},
    {"sglang", "sglang:prompt_tokens_total", "Prompt tokens computed.", true, prompt_tokens},
    {"sglang", "sglang:generation_tokens_total", "Tokens generated.", true, generated_tokens},
    {"trtllm", "trtllm_num_requests_running", "Sequences that are being computed.", false, running},
    {"trtllm", "trtllm_num_requests_waiting", "Sequences in the queue.", false, waiting},
    {"trtllm", "trtllm_kv_cache_utilization", "Share of the KV pages in use, 0 to 1.", false, kv_usage},
    {"trtllm", "trtllm_kv_cache_tokens_per_block", "Tokens of a page.", false, page_tokens},
    {"trtllm", "trtllm_kv_cache_max_blocks", "Pages there are.", false, pages},
    {"llamacpp", "llamacpp:prompt_tokens_total", "Prompt tokens computed.", true, prompt_tokens},
    {"llamacpp", "llamacpp:tokens_predicted_total", "Tokens generated.", true, generated_tokens},
    {"llamacpp", "llamacpp:n_decode_total", "Steps of the engine.", true, steps},
    {"llamacpp", "llamacpp:requests_processing", "Sequences that are being computed.", false, running},
    {"llamacpp", "llamacpp:requests_deferred", "Sequences in the queue.", false, waiting},
};
// clang-format on

bool is_server(const std::string& name) {
  return std::any_of(std::begin(kAliases), std::end(kAliases),
                     [&](const Alias& alias) { return name == alias.server; });
}

}  // namespace

Result<std::vector<std::string>> metrics_compat(const std::vector<std::string>& lists) {
  std::vector<std::string> servers;
  for (const std::string& list : lists)
    for (size_t at = 0; at <= list.size();) {
      const size_t end = std::min(list.find(',', at), list.size());
      servers.push_back(list.substr(at, end - at));
      if (!is_server(servers.back()))
        return fail(ErrorKind::usage, "--metrics-compat: '" + servers.back() +
                                          "', wanted some of sglang, trtllm, llamacpp");
      at = end + 1;
    }
  return servers;
}

void compat_values(const std::vector<std::string>& servers, const EngineStats& stats,
                   Values& values) {
  for (const Alias& alias : kAliases) {
    if (std::find(servers.begin(), servers.end(), alias.server) == servers.end()) continue;
    if (alias.counter)
      values.counter(alias.name, alias.help, alias.value(stats));
    else
      values.gauge(alias.name, alias.help, alias.value(stats));
  }
  if (std::find(servers.begin(), servers.end(), "sglang") != servers.end())
    values.gauge("sglang:cache_config_info", "Sizes of the KV memory.", 1,
                 {{"page_size", std::to_string(kPageSize)},
                  {"num_pages", std::to_string(stats.pages[int(Pool::full)])}});
}

}  // namespace rose
