// Spans of finished requests to an OpenTelemetry collector: OTLP over HTTP, as JSON, in batches, from a
// thread of its own. What a collector that is slow or gone cannot take is dropped and counted; no request
// ever waits for it.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "api/request_report.h"

namespace rose {

class SpanExporter {
 public:
  // "http://collector:4318" or with a path; none: /v1/traces.
  static Result<std::unique_ptr<SpanExporter>> start(const std::string& endpoint,
                                                     const std::string& version);
  ~SpanExporter();  // sends what is left, if that takes no longer than a second

  void add(RequestOutcome outcome, std::chrono::system_clock::time_point ended);  // any thread
  int64_t dropped() const;

 private:
  struct State;
  explicit SpanExporter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rose
