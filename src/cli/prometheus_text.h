// Reads what /metrics answers: Prometheus' text format, as far as a client needs it.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rose {

class Scrape {
 public:
  // Lines that are no samples are passed over.
  explicit Scrape(std::string_view text);

  bool has(const std::string& name) const { return samples_.count(name) > 0; }
  double sum(const std::string& name) const;  // of all series of that name
  // By the value of one label, summed over the others.
  std::map<std::string, double> by(const std::string& name, const std::string& label) const;
  std::string label(const std::string& name,
                    const std::string& label) const;  // of the first series

 private:
  struct Sample {
    std::map<std::string, std::string> labels;
    double value = 0;
  };
  std::map<std::string, std::vector<Sample>> samples_;
};

// Of what a histogram gained between two scrapes; the place within a bucket is taken as even. 0: nothing
// was gained.
double quantile_between(const Scrape& before, const Scrape& after, const std::string& histogram,
                        double share);

}  // namespace rose
