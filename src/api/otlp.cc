#include "api/otlp.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "api/http_client.h"
#include "base/check.h"
#include "base/json.h"
#include "base/log.h"

namespace rose {

namespace {

constexpr size_t kMostWaiting = 4096;  // spans
constexpr size_t kBatch = 512;
constexpr std::chrono::seconds kPause{1};  // between two batches

struct Span {
  RequestOutcome outcome;
  std::chrono::system_clock::time_point ended;
};

Json text(const std::string& value) { return {{"stringValue", value}}; }
Json whole(int64_t value) { return {{"intValue", std::to_string(value)}}; }
Json real(double value) { return {{"doubleValue", value}}; }

// vLLM's names, and the newer ones of the token counts.
Json attributes(const RequestOutcome& outcome) {
  const double prefill = std::max(0.0, outcome.first_token_seconds - outcome.waited_seconds);
  const std::pair<const char*, Json> all[] = {
      {"gen_ai.request.id", text(outcome.id)},
      {"gen_ai.response.model", text(outcome.model)},
      {"gen_ai.request.temperature", real(outcome.temperature)},
      {"gen_ai.request.top_p", real(outcome.top_p)},
      {"gen_ai.request.max_tokens", whole(outcome.max_tokens)},
      {"gen_ai.request.n", whole(outcome.choices)},
      {"gen_ai.usage.prompt_tokens", whole(outcome.prompt_tokens)},
      {"gen_ai.usage.completion_tokens", whole(outcome.completion_tokens)},
      {"gen_ai.usage.input_tokens", whole(outcome.prompt_tokens)},
      {"gen_ai.usage.output_tokens", whole(outcome.completion_tokens)},
      {"gen_ai.latency.time_in_queue", real(outcome.waited_seconds)},
      {"gen_ai.latency.time_to_first_token", real(outcome.first_token_seconds)},
      {"gen_ai.latency.e2e", real(outcome.seconds)},
      {"gen_ai.latency.time_in_model_prefill", real(prefill)},
      {"gen_ai.latency.time_in_model_decode", real(outcome.decode_seconds)},
      {"gen_ai.latency.time_in_model_inference", real(prefill + outcome.decode_seconds)},
      {"gen_ai.response.finish_reasons", text(outcome.reason)},
      {"http.route", text(outcome.path)},
  };
  Json list = Json::array();
  for (const auto& [key, value] : all) list.push_back({{"key", key}, {"value", value}});
  return list;
}

Json span_json(const Span& span) {
  const auto nanos = [](std::chrono::system_clock::time_point time) {
    return std::to_string(
        std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
  };
  const auto length = std::chrono::duration_cast<std::chrono::system_clock::duration>(
      std::chrono::duration<double>(span.outcome.seconds));
  const bool bad = span.outcome.reason == "error" || span.outcome.reason == "timeout";
  Json json = {{"traceId", span.outcome.trace_id},
               {"spanId", span.outcome.span_id},
               {"name", "llm_request"},
               {"kind", 2},  // server
               {"startTimeUnixNano", nanos(span.ended - length)},
               {"endTimeUnixNano", nanos(span.ended)},
               {"attributes", attributes(span.outcome)},
               {"status", {{"code", bad ? 2 : 0}}}};
  if (!span.outcome.parent_span.empty()) json["parentSpanId"] = span.outcome.parent_span;
  return json;
}

}  // namespace

struct SpanExporter::State {
  HttpUrl url;
  std::string version;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Span> waiting;
  bool stopping = false;
  std::atomic<bool> give_up = false;
  std::atomic<int64_t> dropped = 0;
  bool sent_all = false;
  std::thread thread;

  void run();
  void send(const std::vector<Span>& spans);
};

void SpanExporter::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return stopping || !waiting.empty(); });
    if (waiting.empty()) break;
    if (!stopping)
      changed.wait_for(lock, kPause, [&] { return stopping || waiting.size() >= kBatch; });
    const std::vector<Span> spans = std::exchange(waiting, {});
    lock.unlock();
    for (size_t first = 0; first < spans.size(); first += kBatch)
      send({spans.begin() + std::ptrdiff_t(first),
            spans.begin() + std::ptrdiff_t(std::min(spans.size(), first + kBatch))});
    lock.lock();
  }
  sent_all = true;
  changed.notify_all();
}

void SpanExporter::State::send(const std::vector<Span>& spans) {
  Json list = Json::array();
  for (const Span& span : spans) list.push_back(span_json(span));
  const Json scope = {{"scope", {{"name", "rose"}, {"version", version}}},
                      {"spans", std::move(list)}};
  const Json name = {{"key", "service.name"}, {"value", text("rose")}};
  const Json resource = {{"resource", {{"attributes", Json::array({name})}}},
                         {"scopeSpans", Json::array({scope})}};
  const Json body = {{"resourceSpans", Json::array({resource})}};
  const auto status = http_post(
      {.url = url, .target = "", .bearer = "", .body = dump_json(body)}, [](std::string_view) {},
      give_up);
  if (status && *status / 100 == 2) return;
  if (dropped.fetch_add(int64_t(spans.size())) == 0)
    log_warning("spans are dropped: " +
                (status ? strf("the collector answered %d", *status) : status.error().message));
}

Result<std::unique_ptr<SpanExporter>> SpanExporter::start(const std::string& endpoint,
                                                          const std::string& version) {
  auto state = std::make_unique<State>();
  state->url = TRY(within(parse_url(endpoint), "--otlp-traces-endpoint"));
  if (state->url.path.empty()) state->url.path = "/v1/traces";
  state->version = version;
  state->thread = std::thread([state = state.get()] { state->run(); });
  return std::unique_ptr<SpanExporter>(new SpanExporter(std::move(state)));
}

SpanExporter::SpanExporter(std::unique_ptr<State> state) : state_(std::move(state)) {}

SpanExporter::~SpanExporter() {
  {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->changed.notify_all();
    state_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return state_->sent_all; });
  }
  state_->give_up = true;
  state_->thread.join();
}

void SpanExporter::add(RequestOutcome outcome, std::chrono::system_clock::time_point ended) {
  const std::lock_guard lock(state_->mutex);
  if (state_->waiting.size() >= kMostWaiting) {
    ++state_->dropped;
    return;
  }
  state_->waiting.push_back({std::move(outcome), ended});
  if (state_->waiting.size() == 1 || state_->waiting.size() == kBatch) state_->changed.notify_all();
}

int64_t SpanExporter::dropped() const { return state_->dropped; }

}  // namespace rose
