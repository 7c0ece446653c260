#include "api/startup.h"

#include "base/check.h"

namespace rose {

void Startup::progress(const std::string& phase, double share) {
  const std::lock_guard lock(mutex_);
  const Time now = Clock::now();
  if (phases_.empty() || phases_.back().name != phase)
    phases_.push_back({phase, phases_.empty() ? began_ : now, now});
  phases_.back().ended = now;
  share_ = share;
}

void Startup::ready() {
  const std::lock_guard lock(mutex_);
  ready_at_ = Clock::now();
}

Startup::View Startup::view() const {
  const std::lock_guard lock(mutex_);
  View view{.ready = ready_at_ != Time()};
  view.seconds = seconds_between(began_, view.ready ? ready_at_ : Clock::now());
  for (const Phase& phase : phases_)
    view.phases.emplace_back(phase.name, seconds_between(phase.began, phase.ended));
  if (!phases_.empty()) view.phase = phases_.back().name;
  view.share = view.ready ? 1 : share_;
  return view;
}

std::string Startup::sentence() const {
  const View now = view();
  if (now.phase.empty()) return "the model is being loaded";
  return strf("the model is being loaded: %s, %d %%", now.phase.c_str(), int(now.share * 100));
}

}  // namespace rose
