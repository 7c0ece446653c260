// rose top: what a running server is doing, once a second, from its /metrics.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "api/http_client.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/prometheus_text.h"

namespace rose {

namespace {

struct TopOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string api_key;
  double interval_s = 1;
  int count = 0;
  bool json = false;

  template <class Visit>
  void each(Visit&& visit) {
    visit("--url", url, "of the server, or of its admin listener");
    visit("--api-key", api_key, "a key with the scope metrics");
    visit("--interval", interval_s, "seconds between two looks");
    visit("--count,-n", count, "looks; 0: until interrupted");
    visit("--json", json, "a line of JSON for each look");
  }
};

Result<std::string> fetch(const TopOptions& options) {
  const std::atomic<bool> stop = false;
  std::string text;
  const int status = TRY(http_post(
      {.url = TRY(parse_url(options.url)),
       .target = "/metrics",
       .bearer = options.api_key,
       .body = ""},
      [&](std::string_view bytes) { text += bytes; }, stop));
  if (status == 401 || status == 403)
    return fail(ErrorKind::invalid, options.url + " wants another --api-key");
  if (status != 200)
    return fail(ErrorKind::io, strf("%s/metrics answered %d", options.url.c_str(), status));
  return text;
}

// The figures of one look; rates and times are of what happened since the one before.
Json figures(const Scrape& before, const Scrape& now, double seconds) {
  const auto rate = [&](const char* name) { return (now.sum(name) - before.sum(name)) / seconds; };
  const auto ms = [&](const char* name, double share) {
    return 1e3 * quantile_between(before, now, name, share);
  };
  const double looked =
      now.sum("vllm:prefix_cache_queries_total") - before.sum("vllm:prefix_cache_queries_total");
  const double found =
      now.sum("vllm:prefix_cache_hits_total") - before.sum("vllm:prefix_cache_hits_total");
  Json outcomes = Json::object();
  const auto old = before.by("rose:requests_total", "outcome");
  for (const auto& [outcome, count] : now.by("rose:requests_total", "outcome")) {
    const auto was = old.find(outcome);
    outcomes[outcome] = (count - (was == old.end() ? 0 : was->second)) / seconds;
  }
  Json keys = Json::object();
  for (const auto& [key, active] : now.by("rose:key_requests_active", "key")) keys[key] = active;
  return {{"model", now.label("vllm:num_requests_running", "model_name")},
          {"ready", now.sum("rose:ready") > 0},
          {"running", now.sum("vllm:num_requests_running")},
          {"waiting", now.sum("vllm:num_requests_waiting")},
          {"queue_tokens", now.sum("rose:queue_tokens")},
          {"kv_usage", now.sum("vllm:kv_cache_usage_perc")},
          {"saturation", now.sum("rose:saturation")},
          {"prompt_tokens_per_s", rate("vllm:prompt_tokens_total")},
          {"generation_tokens_per_s", rate("vllm:generation_tokens_total")},
          {"prefix_hit_rate", looked > 0 ? found / looked : 0},
          {"preemptions_per_s", rate("vllm:num_preemptions_total")},
          {"first_token_ms",
           {{"p50", ms("vllm:time_to_first_token_seconds", .5)},
            {"p99", ms("vllm:time_to_first_token_seconds", .99)}}},
          {"inter_token_ms",
           {{"p50", ms("vllm:inter_token_latency_seconds", .5)},
            {"p99", ms("vllm:inter_token_latency_seconds", .99)}}},
          {"queue_ms",
           {{"p50", ms("vllm:request_queue_time_seconds", .5)},
            {"p99", ms("vllm:request_queue_time_seconds", .99)}}},
          {"requests_per_s", outcomes},
          {"active_by_key", keys},
          {"memory_bytes", now.sum("process_resident_memory_bytes")},
          {"cpu_cores", rate("process_cpu_seconds_total")}};
}

std::string bar(double share) {
  constexpr int kWidth = 30;
  const int full = int(std::lround(std::min(1.0, std::max(0.0, share)) * kWidth));
  return std::string(size_t(full), '#') + std::string(size_t(kWidth - full), '.');
}

void draw(const std::string& url, const Json& look) {
  const auto number = [&](const char* name) { return look[name].get<double>(); };
  const auto pair = [&](const char* name) {
    return strf("%8.1f %8.1f", look[name]["p50"].get<double>(), look[name]["p99"].get<double>());
  };
  std::string text =
      strf("rose top  %s  %s%s\n\n", url.c_str(), look["model"].get<std::string>().c_str(),
           look["ready"].get<bool>() ? "" : "  (loading)");
  text += strf("busy       [%s] %3.0f %%   running %.0f, waiting %.0f (%.0f tokens)\n",
               bar(number("saturation")).c_str(), 100 * number("saturation"), number("running"),
               number("waiting"), number("queue_tokens"));
  text += strf("KV memory  [%s] %3.0f %%   prefix hits %.0f %%, gave way %.1f/s\n",
               bar(number("kv_usage")).c_str(), 100 * number("kv_usage"),
               100 * number("prefix_hit_rate"), number("preemptions_per_s"));
  text += strf("tokens/s   prompts %.0f, answers %.0f\n\n", number("prompt_tokens_per_s"),
               number("generation_tokens_per_s"));
  text += strf("%-14s %8s %8s\n", "ms", "p50", "p99");
  text += "first token    " + pair("first_token_ms") + "\n";
  text += "between tokens " + pair("inter_token_ms") + "\n";
  text += "in the queue   " + pair("queue_ms") + "\n\nrequests/s ";
  for (const auto& [outcome, rate] : look["requests_per_s"].items())
    text += strf(" %s %.1f", outcome.c_str(), rate.get<double>());
  if (!look["active_by_key"].empty()) text += "\nat work    ";
  for (const auto& [key, active] : look["active_by_key"].items())
    text += strf(" %s %.0f", key.c_str(), active.get<double>());
  text += strf("\nprocess     %.0f MiB, %.2f cores\n", number("memory_bytes") / (1 << 20),
               number("cpu_cores"));
  if (::isatty(STDOUT_FILENO)) std::fputs("\x1b[H\x1b[2J", stdout);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

Status top_command(Arguments arguments) {
  TopOptions options;
  const CommandHelp help = {"top", "Watch a running server.",
                            "  rose top\n"
                            "  rose top --url http://10.0.0.5:8000 --api-key $KEY\n"
                            "  rose top --json -n 1\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  if (!(options.interval_s >= .1)) return fail(ErrorKind::usage, "--interval: wanted 0.1 or more");
  Scrape before(TRY(fetch(options)));
  Time looked = Clock::now();
  for (int look = 0; options.count == 0 || look < options.count; ++look) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
    const Scrape now(TRY(fetch(options)));
    const Time time = Clock::now();
    const Json json = figures(before, now, seconds_between(looked, time));
    if (options.json) {
      std::printf("%s\n", dump_json(json).c_str());
      std::fflush(stdout);
    } else {
      draw(options.url, json);
    }
    before = now;
    looked = time;
  }
  return Done{};
}

}  // namespace rose
