#include "engine/step_trace.h"

#include "base/check.h"

namespace rose {

namespace {

constexpr int64_t kMostSteps = 1'000'000;  // some 400 MB

// Two lanes: the host's view of a step, and the device's work, which ends when
// the step lands.
constexpr const char* kHead =
    "[{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":"
    "1,\"tid\":1,\"args\":{\"name\":\"steps\"}},\n"
    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":"
    "1,\"tid\":2,\"args\":{\"name\":\"device\"}}";

std::string event(int lane, const StepSpan& step, double begin, double end) {
  const bool decodes = step.tokens == step.seqs;
  return strf(
      ",\n{\"name\":\"%s "
      "%d\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.1f,\"dur\":%.1f,"
      "\"args\":{\"tokens\":%d,\"sequences\":%d,\"samples\":%d}}",
      decodes ? "decode" : "step", step.tokens, lane, begin * 1e6, (end - begin) * 1e6, step.tokens,
      step.seqs, step.samples);
}

}  // namespace

Result<std::unique_ptr<StepTrace>> StepTrace::open(const std::string& path) {
  std::ofstream file(path);
  file << kHead;
  if (!file) return fail(ErrorKind::io, "cannot write " + path);
  return std::unique_ptr<StepTrace>(new StepTrace(std::move(file)));
}

StepTrace::~StepTrace() { file_ << "\n]\n"; }

double StepTrace::now() const { return seconds_since(start_); }

void StepTrace::add(const StepSpan& step) {
  if (++steps_ > kMostSteps) return;
  file_ << event(1, step, step.begin, step.end);
  if (step.device > 0) file_ << event(2, step, step.end - step.device, step.end);
}

}  // namespace rose
