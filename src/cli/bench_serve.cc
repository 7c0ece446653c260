#include "cli/bench_serve.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/load_client.h"
#include "cli/options.h"
#include "cli/prometheus_text.h"

namespace rose {

namespace {

struct BenchOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string endpoint = "/v1/chat/completions";
  std::string api_key;
  std::string model;
  int prompts = 100;
  int concurrency = 16;
  int input_words = 128;
  int output_tokens = 128;
  bool ignore_eos = true;
  double ramp_s = 0;
  double rate = 0;
  double late_ms = 250;
  double timeout_s = 600;
  bool probe = true;
  bool json = false;

  template <class Visit>
  void each(Visit&& visit) {
    visit("--url,--base-url", url, "of the server");
    visit("--endpoint", endpoint, "that is asked, for a stream");
    visit("--api-key,$OPENAI_API_KEY", api_key, "sent as a bearer");
    visit("--model", model, "named in each request; none: the one that is served");
    visit("--num-prompts", prompts, "requests in all");
    visit("--max-concurrency,--concurrency", concurrency, "requests at one time");
    visit("--random-input-len,--input-len", input_words, "words of each prompt");
    visit("--random-output-len,--output-len", output_tokens, "tokens of each answer");
    visit("--ignore-eos", ignore_eos, "answers are all as long");
    visit("--ramp", ramp_s, "seconds over which the first requests are spread");
    visit("--expect-rate", rate, "tokens a second that each stream should have; 0: none");
    visit("--late-ms", late_ms, "behind that schedule an event counts as late");
    visit("--timeout", timeout_s, "seconds for the whole");
    visit("--probe", probe, "ask /health 20 times a second meanwhile, and for the memory");
    visit("--json", json, "figures as JSON");
  }
};

std::string request_body(const BenchOptions& options) {
  std::string words = "word";
  for (int i = 1; i < options.input_words; ++i) words += " word";
  Json body = {{"messages", Json::array({Json{{"role", "user"}, {"content", words}}})},
               {"stream", true},
               {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}},
               {"max_tokens", options.output_tokens},
               {"ignore_eos", options.ignore_eos},
               {"temperature", 0}};
  if (!options.model.empty()) body["model"] = options.model;
  return dump_json(body);
}

// Asks /health again and again, and for the server's memory once a second.
class Probe {
 public:
  Probe(const HttpUrl& url, const std::string& bearer) : url_(url), bearer_(bearer) {
    thread_ = std::thread([this] { run(); });
  }
  ~Probe() { stop(); }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::vector<double> health_s;
  std::vector<double> memory_bytes;
  int failures = 0;

 private:
  void run() {
    for (int round = 0; !stop_; ++round) {
      const Time began = Clock::now();
      const auto status = http_post(
          {.url = url_, .target = "/health", .bearer = bearer_, .body = ""},
          [](std::string_view) {}, never_);
      health_s.push_back(seconds_since(began));
      if (!status || *status != 200) ++failures;
      if (round % 20 == 0) {
        std::string text;
        const auto scraped = http_post(
            {.url = url_, .target = "/metrics", .bearer = bearer_, .body = ""},
            [&](std::string_view bytes) { text += bytes; }, never_);
        if (scraped && *scraped == 200)
          memory_bytes.push_back(Scrape(text).sum("process_resident_memory_bytes"));
      }
      std::this_thread::sleep_until(began + std::chrono::milliseconds(50));
    }
  }
  HttpUrl url_;
  std::string bearer_;
  std::atomic<bool> stop_ = false;
  const std::atomic<bool> never_ = false;
  std::thread thread_;
};

template <class Number>
double quantile(std::vector<Number> values, double share) {
  if (values.empty()) return 0;
  const auto at = values.begin() + std::ptrdiff_t(share * double(values.size() - 1) + .5);
  std::nth_element(values.begin(), at, values.end());
  return double(*at);
}

template <class Number>
double mean(const std::vector<Number>& values) {
  double sum = 0;
  for (const Number value : values) sum += double(value);
  return values.empty() ? 0 : sum / double(values.size());
}

struct Figures {
  std::vector<double> first_s, each_s, total_s;
  int64_t tokens = 0, events = 0, lost = 0;
  int late_streams = 0;
  double worst_late_s = 0;
};

Figures figures_of(const LoadResult& result, double late_s) {
  Figures figures;
  for (const StreamRecord& stream : result.streams) {
    if (stream.first_s >= 0) figures.first_s.push_back(stream.first_s);
    figures.total_s.push_back(stream.total_s);
    if (stream.events > 1)
      figures.each_s.push_back((stream.total_s - stream.first_s) / (stream.events - 1));
    figures.tokens += stream.tokens;
    figures.events += stream.events;
    figures.lost += stream.lost;
    figures.worst_late_s = std::max(figures.worst_late_s, stream.worst_late_s);
    figures.late_streams += stream.worst_late_s > late_s;
  }
  return figures;
}

Json summary(const BenchOptions& options, const LoadResult& result, const Figures& figures,
             const Probe* probe) {
  const auto times = [](const char* name, const std::vector<double>& seconds, Json& into) {
    into[strf("mean_%s_ms", name)] = 1e3 * mean(seconds);
    into[strf("median_%s_ms", name)] = 1e3 * quantile(seconds, .5);
    into[strf("p99_%s_ms", name)] = 1e3 * quantile(seconds, .99);
  };
  int failed = 0;
  for (const auto& [why, count] : result.failures) failed += count;
  Json json = {{"duration", result.seconds},
               {"completed", result.streams.size()},
               {"failed", failed},
               {"failures", result.failures},
               {"max_concurrent_requests", result.most_open},
               {"total_output_tokens", figures.tokens},
               {"request_throughput", double(result.streams.size()) / result.seconds},
               {"output_throughput", double(figures.tokens) / result.seconds}};
  times("ttft", figures.first_s, json);
  times("tpot", figures.each_s, json);
  json["mean_itl_ms"] = 1e3 * mean(result.gaps_s);
  json["median_itl_ms"] = 1e3 * quantile(result.gaps_s, .5);
  json["p99_itl_ms"] = 1e3 * quantile(result.gaps_s, .99);
  json["max_itl_ms"] = 1e3 * quantile(result.gaps_s, 1);
  times("e2el", figures.total_s, json);
  json["events"] = figures.events;
  json["lost_events"] = figures.lost;
  if (options.rate > 0) {
    json["late_streams"] = figures.late_streams;
    json["worst_late_ms"] = 1e3 * figures.worst_late_s;
  }
  if (probe) {
    json["health_requests"] = probe->health_s.size();
    json["health_failures"] = probe->failures;
    json["median_health_ms"] = 1e3 * quantile(probe->health_s, .5);
    json["p99_health_ms"] = 1e3 * quantile(probe->health_s, .99);
    json["max_health_ms"] = 1e3 * quantile(probe->health_s, 1);
    if (!probe->memory_bytes.empty()) {
      const auto mib = [](double bytes) { return bytes / (1 << 20); };
      json["memory_first_mib"] = mib(probe->memory_bytes.front());
      json["memory_middle_mib"] = mib(probe->memory_bytes[probe->memory_bytes.size() / 2]);
      json["memory_last_mib"] = mib(probe->memory_bytes.back());
    }
  }
  return json;
}

// The block that everybody's scripts read, then what only we measure.
void print(const Json& json) {
  const auto line = [&](const char* label, const char* name) {
    if (json.contains(name)) std::printf("%-40s %-10.2f\n", label, json[name].get<double>());
  };
  const auto times = [&](const char* title, const char* what, const char* label) {
    std::printf("%s\n", title);
    for (const char* which : {"Mean", "Median", "P99"}) {
      std::string name = strf("%s_%s_ms", which, what);
      for (char& c : name) c = char(std::tolower(c));
      line(strf("%s %s (ms):", which, label).c_str(), name.c_str());
    }
  };
  std::printf("============ Serving Benchmark Result ============\n");
  line("Successful requests:", "completed");
  line("Failed requests:", "failed");
  line("Benchmark duration (s):", "duration");
  line("Total generated tokens:", "total_output_tokens");
  line("Request throughput (req/s):", "request_throughput");
  line("Output token throughput (tok/s):", "output_throughput");
  line("Peak concurrent requests:", "max_concurrent_requests");
  times("---------------Time to First Token----------------", "ttft", "TTFT");
  times("-----Time per Output Token (excl. 1st token)------", "tpot", "TPOT");
  times("---------------Inter-token Latency----------------", "itl", "ITL");
  times("----------------End-to-end Latency----------------", "e2el", "E2EL");
  std::printf("--------------------As a service-------------------\n");
  line("Longest gap between events (ms):", "max_itl_ms");
  line("Events lost:", "lost_events");
  line("Streams with a late event:", "late_streams");
  line("Latest event behind its schedule (ms):", "worst_late_ms");
  line("Median /health (ms):", "median_health_ms");
  line("P99 /health (ms):", "p99_health_ms");
  line("Longest /health (ms):", "max_health_ms");
  line("Failed /health:", "health_failures");
  line("Server's memory at first (MiB):", "memory_first_mib");
  line("Server's memory half way (MiB):", "memory_middle_mib");
  line("Server's memory at last (MiB):", "memory_last_mib");
  for (const auto& [why, count] : json["failures"].items())
    std::printf("failed: %s: %d\n", why.c_str(), count.get<int>());
  std::printf("==================================================\n");
}

}  // namespace

Status bench_serve(Arguments arguments) {
  BenchOptions options;
  const CommandHelp help = {
      "bench serve", "A running server under load: streams, their events, probes meanwhile.",
      "  rose bench serve --num-prompts 200 --max-concurrency 32\n"
      "  rose bench serve --num-prompts 2000 --max-concurrency 2000 --output-len 600 --ramp 10 "
      "--expect-rate 10\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  for (const int value :
       {options.prompts, options.concurrency, options.input_words, options.output_tokens})
    if (value < 1) return fail(ErrorKind::usage, strf("%d, wanted counts of 1 or more", value));
  const HttpUrl url = TRY(parse_url(options.url));
  std::optional<Probe> probe;
  if (options.probe) probe.emplace(url, options.api_key);
  const LoadResult result = TRY(run_load({.url = url,
                                          .target = options.endpoint,
                                          .bearer = options.api_key,
                                          .body = request_body(options),
                                          .requests = options.prompts,
                                          .concurrency = options.concurrency,
                                          .ramp_s = options.ramp_s,
                                          .rate = options.rate,
                                          .timeout_s = options.timeout_s}));
  if (probe) probe->stop();
  const Json json = summary(options, result, figures_of(result, options.late_ms / 1e3),
                            probe ? &*probe : nullptr);
  if (options.json)
    std::printf("%s\n", dump_json(json).c_str());
  else
    print(json);
  return Done{};
}

}  // namespace rose
