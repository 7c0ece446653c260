#include "api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/summary.h>
#include <prometheus/text_serializer.h>

#include <mutex>
#include <set>

#include "api/metrics_values.h"
#include "base/check.h"

namespace rose {

namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::Summary;
using Buckets = Histogram::BucketBoundaries;
using Labels = std::map<std::string, std::string>;

// clang-format off
const Buckets kFirstToken = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560};
// Dashboards expect those from 0.01 on; the model's tokens come faster than that.
const Buckets kEachToken = {.001, .002, .003, .004, .005, .006, .008, .01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
// Dashboards expect those from 0.3 on.
const Buckets kLatency = {.005, .01, .025, .05, .1, .2, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
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
  Family<Counter>& counters(const char* name, const char* help, const Labels& of_all) {
    return prometheus::BuildCounter().Name(name).Help(help).Labels(of_all).Register(registry);
  }
  Family<Summary>& sizes(const char* name, const char* help) {
    return prometheus::BuildSummary().Name(name).Help(help).Register(registry);
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
  Histogram& queue =
      histogram("request_queue_time_seconds", "From arrival to its first step.", kLatency);
  Histogram& prefill = histogram("request_prefill_time_seconds",
                                 "From its first step to its first token.", kLatency);
  Histogram& inference = histogram("request_inference_time_seconds",
                                   "From its first step to its last token.", kLatency);
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

  Family<Counter>& success =
      counters("vllm:request_success_total",
               "Requests that reached the engine and ended, by reason.", labels);
  Family<Counter>& outcomes =
      counters("rose:requests_total", "Every request, rejected ones too, by outcome.", labels);
  Family<Counter>& ignored = counters("rose:ignored_params_total",
                                      "Fields of requests that had no effect, by name.", labels);
  Family<Counter>& http_requests =
      counters("http_requests_total", "HTTP requests by route, method and class of status.", {});
  Family<Histogram>& http_seconds =
      prometheus::BuildHistogram()
          .Name("http_request_duration_seconds")
          .Help("From the first byte of a request to the end of its answer.")
          .Register(registry);
  Histogram& http_highr = prometheus::BuildHistogram()
                              .Name("http_request_duration_highr_seconds")
                              .Help("The same, of all routes, in finer steps.")
                              .Register(registry)
                              .Add({}, kFirstToken);
  Family<Summary>& request_bytes = sizes("http_request_size_bytes", "Requests with their headers.");
  Family<Summary>& response_bytes =
      sizes("http_response_size_bytes", "Answers with their headers.");
  std::mutex mutex;
  std::set<std::string> field_names;
};

Metrics::Metrics(const std::string& model_name, int max_context, std::vector<std::string> compat)
    : state_(std::make_unique<State>(model_name, max_context)), compat_(std::move(compat)) {
  // Series that exist from the start, so that a rate over the first of them is no gap.
  for (const char* reason : {"stop", "length", "abort", "error", "timeout"}) {
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
  const double prefill = std::max(0.0, outcome.first_token_seconds - outcome.waited_seconds);
  state.queue.Observe(outcome.waited_seconds);
  state.prefill.Observe(prefill);
  state.inference.Observe(prefill + outcome.decode_seconds);
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
  state_->http_highr.Observe(record.seconds);
  state_->request_bytes.Add({{"handler", handler}}, Summary::Quantiles{})
      .Observe(double(record.request_bytes));
  state_->response_bytes.Add({{"handler", handler}}, Summary::Quantiles{})
      .Observe(double(record.response_bytes));
}

std::string Metrics::text(const Startup& startup) {
  Values values({});
  startup_values(startup, values);
  process_values(values);
  return prometheus::TextSerializer().Serialize(values.families);
}

std::string Metrics::text(const EngineStats& stats, const Keys& keys, const Startup& startup,
                          int64_t spans_dropped) const {
  Values values(state_->labels);
  engine_values(stats, values);
  compat_values(compat_, stats, values);
  key_values(keys, values);
  startup_values(startup, values);
  values.counter("rose:spans_dropped_total", "Spans that no collector took.",
                 double(spans_dropped));
  process_values(values);
  std::vector<MetricFamily> families = state_->registry.Collect();
  std::move(values.families.begin(), values.families.end(), std::back_inserter(families));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace rose
