#include "api/context.h"

namespace rose {

void report(ApiContext& context, RequestOutcome outcome) {
  context.metrics.ended(outcome);
  const auto now = std::chrono::system_clock::now();
  if (context.state.log) context.state.log->write(log_line(outcome, now));
  if (context.state.spans && !outcome.trace_id.empty())
    context.state.spans->add(std::move(outcome), now);
}

}  // namespace rose
