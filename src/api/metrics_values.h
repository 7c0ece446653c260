// Families of single values for /metrics, as the engine, the process, the keys and the start give them
// at the moment of asking.
#pragma once
#include <prometheus/metric_family.h>

#include <map>
#include <string>
#include <vector>

#include "api/keys.h"
#include "api/startup.h"
#include "engine/engine.h"

namespace rose {

class Values {
 public:
  using Labels = std::map<std::string, std::string>;

  // `common` are added to every series whose name has a ':'.
  explicit Values(Labels common) : common_(std::move(common)) {}

  void gauge(const char* name, const char* help, double value, const Labels& labels = {}) {
    add(name, help, prometheus::MetricType::Gauge, value, labels);
  }
  void counter(const char* name, const char* help, double value, const Labels& labels = {}) {
    add(name, help, prometheus::MetricType::Counter, value, labels);
  }
  // Of values already counted: `counts` has one more than `bounds`, for what is above all of them.
  void histogram(const char* name, const char* help, std::span<const int> bounds,
                 std::span<const int64_t> counts, double sum);

  std::vector<prometheus::MetricFamily> families;

 private:
  prometheus::ClientMetric& add_metric(const char* name, const char* help,
                                       prometheus::MetricType type, const Labels& labels);
  void add(const char* name, const char* help, prometheus::MetricType type, double value,
           const Labels& labels);
  const Labels common_;
};

void engine_values(const EngineStats& stats, Values& values);
// Again under the names of these servers (metrics_compat.cc).
void compat_values(const std::vector<std::string>& servers, const EngineStats& stats,
                   Values& values);
void startup_values(const Startup& startup, Values& values);
void key_values(const Keys& keys, Values& values);
void process_values(Values& values);

}  // namespace rose
