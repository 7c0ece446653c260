// A file of the steps that ran, one event each, as Chrome's trace viewer and
// Perfetto read it: when a step was launched and when its results were there,
// what it fed, and how long the device worked on it.
#pragma once
#include <fstream>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace rose {

struct StepSpan {
  double begin = 0, end = 0;  // launched and landed; seconds by StepTrace::now
  double device = 0;          // of its kernels; 0: not known
  int tokens = 0, seqs = 0, samples = 0;
};

class StepTrace {
 public:
  static Result<std::unique_ptr<StepTrace>> open(const std::string& path);
  ~StepTrace();  // ends the file; one that is cut off is readable too

  double now() const;  // since it was opened
  // One thread at a time. After a million steps the file is full, and the rest
  // is left out.
  void add(const StepSpan& step);

 private:
  explicit StepTrace(std::ofstream file) : file_(std::move(file)) {}

  std::ofstream file_;
  Time start_ = Clock::now();
  int64_t steps_ = 0;
};

}  // namespace rose
