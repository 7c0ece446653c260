#include "api/request_report.h"

#include <cstdio>
#include <ctime>
#include <mutex>

#include "api/ids.h"
#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == text.npos &&
         text.find_first_not_of('0') != text.npos;
}

double ms(double seconds) { return double(int64_t(seconds * 1e6 + 0.5)) / 1e3; }

std::string utc(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return strf("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900, parts.tm_mon + 1,
              parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, int(millis));
}

}  // namespace

void begin_trace(std::string_view traceparent, RequestOutcome& outcome) {
  const bool valid = traceparent.size() >= 55 && traceparent.starts_with("00-") &&
                     traceparent[35] == '-' && traceparent[52] == '-' &&
                     is_hex(traceparent.substr(3, 32)) && is_hex(traceparent.substr(36, 16));
  if (valid && traceparent.substr(53, 2) == "00") return;
  outcome.trace_id = valid ? std::string(traceparent.substr(3, 32)) : new_id("", 32);
  outcome.parent_span = valid ? std::string(traceparent.substr(36, 16)) : "";
  outcome.span_id = new_id("", 16);
}

std::string log_line(const RequestOutcome& outcome, std::chrono::system_clock::time_point ended) {
  Json line = {{"time", utc(ended)},
               {"id", outcome.id},
               {"path", outcome.path},
               {"model", outcome.model},
               {"key", outcome.key},
               {"outcome", outcome.reason},
               {"prompt_tokens", outcome.prompt_tokens},
               {"cached_tokens", outcome.cached_tokens},
               {"completion_tokens", outcome.completion_tokens},
               {"reasoning_tokens", outcome.reasoning_tokens},
               {"choices", outcome.choices},
               {"max_tokens", outcome.max_tokens},
               {"temperature", outcome.temperature},
               {"queue_ms", ms(outcome.waited_seconds)},
               {"first_token_ms", ms(outcome.first_token_seconds)},
               {"decode_ms", ms(outcome.decode_seconds)},
               {"total_ms", ms(outcome.seconds)}};
  if (!outcome.trace_id.empty()) line["trace_id"] = outcome.trace_id;
  return dump_json(line);
}

struct RequestLog::State {
  std::string path;
  std::mutex mutex;
  FILE* file = nullptr;

  Status open() {
    FILE* opened = path == "-" ? stdout : std::fopen(path.c_str(), "ae");
    if (!opened) return fail(ErrorKind::io, "--request-log " + path + ": cannot be opened");
    const std::lock_guard lock(mutex);
    std::swap(file, opened);
    if (opened && opened != stdout) std::fclose(opened);
    return Done{};
  }
};

Result<std::unique_ptr<RequestLog>> RequestLog::open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  TRY(state->open());
  return std::unique_ptr<RequestLog>(new RequestLog(std::move(state)));
}

RequestLog::RequestLog(std::unique_ptr<State> state) : state_(std::move(state)) {}
RequestLog::~RequestLog() {
  if (state_->file && state_->file != stdout) std::fclose(state_->file);
}

void RequestLog::write(const std::string& line) {
  const std::lock_guard lock(state_->mutex);
  std::fprintf(state_->file, "%s\n", line.c_str());
  std::fflush(state_->file);
}

Status RequestLog::reopen() { return state_->open(); }

}  // namespace rose
