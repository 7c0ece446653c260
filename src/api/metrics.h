// The numbers at /metrics, under the names that vLLM's dashboards and gateways ask for; what only rose
// has begins with "rose:". Every method may be called from any thread.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/http.h"
#include "api/request_report.h"
#include "engine/engine.h"

namespace rose {

// The share of the pool of pages that is fuller; what is only cached can be taken at any time.
double kv_usage(const EngineStats& stats);
// How full the engine is, 0 to 1: of sequences or of pages.
double saturation(const EngineStats& stats);

// "sglang,llamacpp" as names of servers whose names are told as well; an error if one is not known.
Result<std::vector<std::string>> metrics_compat(const std::vector<std::string>& lists);

class Keys;
class Startup;

class Metrics {
 public:
  Metrics(const std::string& model_name, int max_context, std::vector<std::string> compat);
  ~Metrics();

  void first_token(double seconds);
  void next_tokens(double seconds_each, int tokens);
  void ended(const RequestOutcome& outcome);
  void ignored_field(const std::string& name);
  void http(const HttpRecord& record, std::string_view route);

  // All of it in Prometheus' text format, the engine's numbers as they are now.
  std::string text(const EngineStats& stats, const Keys& keys, const Startup& startup,
                   int64_t spans_dropped) const;
  // What is known before there is a model.
  static std::string text(const Startup& startup);

 private:
  struct State;
  std::unique_ptr<State> state_;
  const std::vector<std::string>
      compat_;  // servers under whose names the engine's numbers are told too
};

}  // namespace rose
