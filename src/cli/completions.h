// Requests through an engine from a command: wait for the answers, in order, all running together.
#pragma once
#include <functional>
#include <vector>

#include "engine/engine.h"

namespace rose {

// One choice of one request, whole.
struct Completion {
  std::vector<GeneratedToken> tokens;
  Finish finish = Finish::none;
  int cached_tokens = 0;
  double first_token_seconds = 0;  // from its submission
  double seconds = 0;              // to its end
};

// Every choice of every request, in their order. At most `in_flight` requests are with the engine at a
// time. `on_done` is called from here each time a choice has ended, with the number ended so far.
Result<std::vector<std::vector<Completion>>> complete_all(
    Engine& engine, std::vector<Request> requests, int in_flight,
    const std::function<void(int done)>& on_done = {});

}  // namespace rose
