#include "api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "base/check.h"

namespace rose {

namespace {

using prometheus::ClientMetric;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Buckets = Histogram::BucketBoundaries;
using Labels = std::map<std::string, std::string>;

// clang-format off
const Buckets kFirstToken = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560};
// Dashboards expect those from 0.01 on; the model's tokens come faster than that.
const Buckets kEachToken = {.001, .002, .003, .004, .005, .006, .008, .01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
const Buckets kLatency = {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Buckets kHttp = {.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60};
const Buckets kChoices = {1, 2, 5, 10, 20};
// clang-format on

// 1, 2, 5, 10, … up to `most`.
Buckets token_buckets(int most) {
  Buckets buckets;
  for (double ten = 1; ten <= most; ten *= 10)
    for (const double digit : {1, 2, 5})
      if (ten * digit <= most) buckets.push_back(ten * digit);
  return buckets;
}

constexpr size_t kMaxFieldNames = 50;  // a client must not be able to make endless series

}  // namespace

struct Metrics::State {
  State(const std::string& model_name, int max_context)
      : labels{{"model_name", model_name}, {"engine", "0"}}, tokens(token_buckets(max_context)) {}

  Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram()
        .Name(std::string("vllm:") + name)
        .Help(help)
        .Labels(labels)
        .Register(registry)
        .Add({}, buckets);
  }

  const Labels labels;
  const Buckets tokens;
  prometheus::Registry registry;

  Histogram& ttft =
      histogram("time_to_first_token_seconds", "From arrival to the first token.", kFirstToken);
  Histogram& itl =
      histogram("inter_token_latency_seconds", "Between two tokens of a request.", kEachToken);
  Histogram& tpot = histogram("time_per_output_token_seconds",
                              "The older name of inter_token_latency_seconds.", kEachToken);
  Histogram& mean_tpot = histogram("request_time_per_output_token_seconds",
                                   "Mean time a token after the first, of a request.", kEachToken);
  Histogram& e2e =
      histogram("e2e_request_latency_seconds", "From arrival to the last token.", kLatency);
  Histogram& decode =
      histogram("request_decode_time_seconds", "From the first token to the last.", kLatency);
  Histogram& prompt_tokens = histogram("request_prompt_tokens", "Tokens of a prompt.", tokens);
  Histogram& generation_tokens =
      histogram("request_generation_tokens", "Tokens generated for a request.", tokens);
  Histogram& longest = histogram("request_max_num_generation_tokens",
                                 "Tokens of a request's longest choice.", tokens);
  Histogram& params_n = histogram("request_params_n", "The n of a request.", kChoices);
  Histogram& params_max =
      histogram("request_params_max_tokens", "The max_tokens of a request.", tokens);

  Family<Counter>& success = prometheus::BuildCounter()
                                 .Name("vllm:request_success_total")
                                 .Help("Requests that reached the engine and ended, by reason.")
                                 .Labels(labels)
                                 .Register(registry);
  Family<Counter>& outcomes = prometheus::BuildCounter()
                                  .Name("rose:requests_total")
                                  .Help("Every request, rejected ones too, by outcome.")
                                  .Labels(labels)
                                  .Register(registry);
  Family<Counter>& ignored = prometheus::BuildCounter()
                                 .Name("rose:ignored_params_total")
                                 .Help("Fields of requests that had no effect, by name.")
                                 .Labels(labels)
                                 .Register(registry);
  Family<Counter>& http_requests = prometheus::BuildCounter()
                                       .Name("http_requests_total")
                                       .Help("HTTP requests by route, method and class of status.")
                                       .Register(registry);
  Family<Histogram>& http_seconds =
      prometheus::BuildHistogram()
          .Name("http_request_duration_seconds")
          .Help("From the first byte of a request to the end of its answer.")
          .Register(registry);
  std::mutex mutex;
  std::set<std::string> field_names;
};

Metrics::Metrics(const std::string& model_name, int max_context)
    : state_(std::make_unique<State>(model_name, max_context)) {
  // Series that exist from the start, so that a rate over the first of them is no gap.
  for (const char* reason : {"stop", "length", "abort", "error"}) {
    state_->success.Add({{"finished_reason", reason}});
    state_->outcomes.Add({{"outcome", reason}});
  }
  state_->outcomes.Add({{"outcome", "rejected"}});
}
Metrics::~Metrics() = default;

void Metrics::first_token(double seconds) { state_->ttft.Observe(seconds); }

void Metrics::next_tokens(double seconds_each, int tokens) {
  for (int i = 0; i < tokens; ++i) {
    state_->itl.Observe(seconds_each);
    state_->tpot.Observe(seconds_each);
  }
}

void Metrics::ended(const RequestOutcome& outcome) {
  State& state = *state_;
  // A tool call is a stop, to those who count.
  const std::string reason(outcome.reason == "tool_calls" ? "stop" : outcome.reason);
  state.outcomes.Add({{"outcome", reason}}).Increment();
  if (reason == "rejected") return;
  state.success.Add({{"finished_reason", reason}}).Increment();
  state.e2e.Observe(outcome.seconds);
  state.prompt_tokens.Observe(outcome.prompt_tokens);
  state.generation_tokens.Observe(outcome.completion_tokens);
  state.longest.Observe(outcome.longest_completion);
  state.params_n.Observe(outcome.choices);
  if (outcome.max_tokens > 0) state.params_max.Observe(outcome.max_tokens);
  if (outcome.completion_tokens == 0) return;
  state.decode.Observe(outcome.decode_seconds);
  if (outcome.longest_completion > 1)
    state.mean_tpot.Observe(outcome.decode_seconds / (outcome.longest_completion - 1));
}

void Metrics::ignored_field(const std::string& name) {
  std::string label = name;
  {
    const std::lock_guard lock(state_->mutex);
    const bool plain = name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
                         return std::isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
                       });
    if (plain && state_->field_names.size() < kMaxFieldNames) state_->field_names.insert(name);
    if (!state_->field_names.count(name)) label = "other";
  }
  state_->ignored.Add({{"param", label}}).Increment();
}

void Metrics::http(const HttpRecord& record, std::string_view route) {
  const std::string handler(route.empty() ? "none" : route);
  const std::string method = route.empty() ? "other" : record.method;
  const std::string status = strf("%dxx", record.status / 100);
  state_->http_requests.Add({{"handler", handler}, {"method", method}, {"status", status}})
      .Increment();
  state_->http_seconds.Add({{"handler", handler}, {"method", method}}, kHttp)
      .Observe(record.seconds);
}

namespace {

// Builds families of single values, as the engine and the process give them.
class Values {
 public:
  explicit Values(const Labels& labels) {
    for (const auto& [name, value] : labels) labels_.push_back({name, value});
  }

  void gauge(const char* name, const char* help, double value) {
    add(name, help, MetricType::Gauge, value);
  }
  void counter(const char* name, const char* help, double value) {
    add(name, help, MetricType::Counter, value);
  }
  // One family, a series for each state of the pages of a pool.
  void pages(const EngineStats& stats) {
    MetricFamily family{
        "rose:kv_pages", "Pages of keys and values, by pool and state.", MetricType::Gauge, {}};
    const char* pools[kPools] = {"full", "sliding"};
    for (int pool = 0; pool < kPools; ++pool) {
      const int free = stats.pages_free[pool], cached = stats.pages_cached[pool];
      const std::pair<const char*, int> states[] = {
          {"free", free}, {"cached", cached}, {"held", stats.pages[pool] - free - cached}};
      for (const auto& [state, count] : states) {
        ClientMetric metric;
        metric.label = labels_;
        metric.label.push_back({"group", pools[pool]});
        metric.label.push_back({"state", state});
        metric.gauge.value = count;
        family.metric.push_back(std::move(metric));
      }
    }
    families.push_back(std::move(family));
  }

  std::vector<MetricFamily> families;

 private:
  void add(const char* name, const char* help, MetricType type, double value) {
    ClientMetric metric;
    if (std::string_view(name).find(':') != std::string_view::npos) metric.label = labels_;
    metric.gauge.value = metric.counter.value = value;
    families.push_back({name, help, type, {std::move(metric)}});
  }
  std::vector<ClientMetric::Label> labels_;
};

void engine_values(const EngineStats& stats, Values& values) {
  values.gauge("vllm:num_requests_running", "Sequences that are being computed.", stats.running);
  values.gauge("vllm:num_requests_waiting", "Sequences in the queue.", stats.waiting);
  values.gauge("vllm:kv_cache_usage_perc", "Share of the KV pages in use, 0 to 1.",
               kv_usage(stats));
  values.gauge("vllm:gpu_cache_usage_perc", "The older name of kv_cache_usage_perc.",
               kv_usage(stats));
  values.pages(stats);
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
}

void process_values(Values& values) {
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

}  // namespace

double kv_usage(const EngineStats& stats) {
  double most = 0;
  for (int pool = 0; pool < kPools; ++pool)
    if (stats.pages[pool] > 0)
      most = std::max(
          most, double(stats.pages[pool] - stats.pages_free[pool] - stats.pages_cached[pool]) /
                    stats.pages[pool]);
  return most;
}

std::string Metrics::process_text() {
  Values values({});
  process_values(values);
  return prometheus::TextSerializer().Serialize(values.families);
}

std::string Metrics::text(const EngineStats& stats) const {
  Values values(state_->labels);
  engine_values(stats, values);
  process_values(values);
  std::vector<MetricFamily> families = state_->registry.Collect();
  std::move(values.families.begin(), values.families.end(), std::back_inserter(families));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace rose
