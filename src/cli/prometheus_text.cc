#include "cli/prometheus_text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace rose {

namespace {

// `name="value",…}`: fills `labels` and returns what follows the brace; npos: it is none of that.
size_t read_labels(std::string_view line, size_t at, std::map<std::string, std::string>& labels) {
  while (at < line.size() && line[at] != '}') {
    const size_t equals = line.find("=\"", at);
    if (equals == line.npos) return line.npos;
    const std::string name(line.substr(at, equals - at));
    std::string value;
    for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] == '\\' && at + 1 < line.size()) ++at;
      value += line[at];
    }
    labels[name] = value;
    ++at;
    if (at < line.size() && line[at] == ',') ++at;
  }
  return at < line.size() ? at + 1 : line.npos;
}

double number(std::string_view text) {
  const std::string word(text);
  if (word == "+Inf") return std::numeric_limits<double>::infinity();
  return std::strtod(word.c_str(), nullptr);
}

}  // namespace

Scrape::Scrape(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (line.empty() || line[0] == '#') continue;
    size_t at = line.find_first_of("{ ");
    if (at == line.npos) continue;
    const std::string name(line.substr(0, at));
    Sample sample;
    if (line[at] == '{') at = read_labels(line, at + 1, sample.labels);
    if (at == line.npos) continue;
    at = std::min(line.find_first_not_of(' ', at), line.size());
    sample.value = number(line.substr(at, line.find(' ', at) - at));
    samples_[name].push_back(std::move(sample));
  }
}

double Scrape::sum(const std::string& name) const {
  double total = 0;
  if (const auto found = samples_.find(name); found != samples_.end())
    for (const Sample& sample : found->second) total += sample.value;
  return total;
}

std::map<std::string, double> Scrape::by(const std::string& name, const std::string& label) const {
  std::map<std::string, double> values;
  if (const auto found = samples_.find(name); found != samples_.end())
    for (const Sample& sample : found->second)
      if (const auto at = sample.labels.find(label); at != sample.labels.end())
        values[at->second] += sample.value;
  return values;
}

std::string Scrape::label(const std::string& name, const std::string& label) const {
  const auto found = samples_.find(name);
  if (found == samples_.end()) return {};
  const auto at = found->second.front().labels.find(label);
  return at == found->second.front().labels.end() ? std::string() : at->second;
}

double quantile_between(const Scrape& before, const Scrape& after, const std::string& histogram,
                        double share) {
  const auto old_counts = before.by(histogram + "_bucket", "le");
  std::vector<std::pair<double, double>> buckets;  // bound, gained up to there
  for (const auto& [bound, count] : after.by(histogram + "_bucket", "le")) {
    const auto old = old_counts.find(bound);
    buckets.emplace_back(number(bound), count - (old == old_counts.end() ? 0 : old->second));
  }
  std::sort(buckets.begin(), buckets.end());
  if (buckets.empty() || buckets.back().second <= 0) return 0;
  const double wanted = share * buckets.back().second;
  double low = 0, passed = 0;
  for (const auto& [bound, count] : buckets) {
    if (count >= wanted && count > passed)
      return std::isinf(bound) ? low : low + (bound - low) * (wanted - passed) / (count - passed);
    low = bound;
    passed = count;
  }
  return low;
}

}  // namespace rose
