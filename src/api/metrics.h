// The numbers at /metrics, under the names that vLLM's dashboards and gateways ask for; what only rose
// has begins with "rose:". Every method may be called from any thread.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "api/http.h"
#include "engine/engine.h"

namespace rose {

// What is known of a request when it has ended.
struct RequestOutcome {
  std::string_view reason;  // "stop", "length", "tool_calls", "abort", "error", "rejected"
  int prompt_tokens = 0, completion_tokens = 0, longest_completion = 0;
  int choices = 1;
  int max_tokens = 0;         // 0: no limit was given
  double seconds = 0;         // since it arrived
  double decode_seconds = 0;  // from its first token to its last
};

// The share of the pool of pages that is fuller; what is only cached can be taken at any time.
double kv_usage(const EngineStats& stats);

class Metrics {
 public:
  Metrics(const std::string& model_name, int max_context);
  ~Metrics();

  void first_token(double seconds);
  void next_tokens(double seconds_each, int tokens);
  void ended(const RequestOutcome& outcome);
  void ignored_field(const std::string& name);
  void http(const HttpRecord& record, std::string_view route);

  // All of it in Prometheus' text format, the engine's numbers as they are now.
  std::string text(const EngineStats& stats) const;
  // What is known of the process alone, before there is a model.
  static std::string process_text();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rose
