// How far the server is on its way to the first answer: what /health, /health/ready and
// /health/startup say while the model is being loaded. Every method may be called from any thread.
#pragma once
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace rose {

class Startup {
 public:
  // The work that is being done, and how much of it is; a new name ends the phase before.
  void progress(const std::string& phase, double share);
  void ready();

  struct View {
    bool ready = false;
    std::string phase;                                   // the newest
    double share = 0;                                    // of it, 0 to 1
    double seconds = 0;                                  // from the beginning, up to ready()
    std::vector<std::pair<std::string, double>> phases;  // name, seconds
  };
  View view() const;
  // "the model is being loaded: weights, 43 %"
  std::string sentence() const;

 private:
  struct Phase {
    std::string name;
    Time began, ended;
  };
  mutable std::mutex mutex_;
  const Time began_ = Clock::now();
  Time ready_at_ = {};
  std::vector<Phase> phases_;
  double share_ = 0;
};

}  // namespace rose
