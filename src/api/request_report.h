// What is known of a request when it has ended, and who is told: one line of JSON in the request log, one
// span to a collector. Numbers and names only: what was asked and answered is in neither.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rose {

struct RequestOutcome {
  std::string reason;  // "stop", "length", "tool_calls", "abort", "timeout", "error", "rejected"
  int prompt_tokens = 0, completion_tokens = 0, longest_completion = 0;
  int cached_tokens = 0, reasoning_tokens = 0;
  int choices = 1;
  int max_tokens = 0;  // 0: no limit was given
  float temperature = 1, top_p = 1;
  double seconds = 0;              // since it arrived
  double waited_seconds = 0;       // in the queue
  double first_token_seconds = 0;  // from its arrival; 0: there was none
  double decode_seconds = 0;       // from its first token to its last

  std::string id, path, key, model;
  std::string trace_id, span_id, parent_span;  // hexadecimal; empty: it is not traced
};

// "00-<trace>-<span>-01" of a request's traceparent header, or a new trace; not sampled where the client
// says so.
void begin_trace(std::string_view traceparent, RequestOutcome& outcome);

std::string log_line(const RequestOutcome& outcome, std::chrono::system_clock::time_point ended);

// A file that each line goes to as it is written; `-` is standard output.
class RequestLog {
 public:
  static Result<std::unique_ptr<RequestLog>> open(const std::string& path);
  ~RequestLog();
  void write(const std::string& line);  // from any thread
  Status reopen();                      // it may have been moved away

 private:
  struct State;
  explicit RequestLog(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rose
