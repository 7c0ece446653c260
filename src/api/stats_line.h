// What the engine did since the last line, in the words of vLLM's log, which people search for.
#pragma once
#include <chrono>
#include <string>

#include "engine/engine.h"

namespace rose {

class StatsLine {
 public:
  // Empty where nothing happened. The first call only looks.
  std::string next(const EngineStats& stats, std::chrono::steady_clock::time_point now);

 private:
  EngineStats last_;
  std::chrono::steady_clock::time_point when_;
};

}  // namespace rose
