// What the engine did since the last line, in the words of vLLM's log, which people search for.
#pragma once
#include <string>

#include "base/clock.h"
#include "engine/engine.h"

namespace rose {

class StatsLine {
 public:
  // Empty where nothing happened. The first call only looks.
  std::string next(const EngineStats& stats, Time now);

 private:
  EngineStats last_;
  Time when_;
};

}  // namespace rose
