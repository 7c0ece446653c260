// A model without weights that says what it is told, at a given speed: for load tests, for tests of all
// that stands above the engine, and for those who build on the API. Everything around it is real: its
// "keys and values" are how far into the script each token is, kept in the pages of the cache, so that
// a page that went wrong is noticed.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/loader.h"

namespace rose {

struct MockOptions {
  std::string answer;
  int answer_tokens = 0;
  double speed = 50;
  double prefill_speed = 0;
  double load_s = 0;

  template <class Visit>
  void each(Visit&& visit) {
    visit("--mock-answer", answer, "with --device mock: what it says, as Harmony text");
    visit("--mock-answer-tokens", answer_tokens, "or an answer of so many words");
    visit("--mock-speed", speed, "tokens a second of each sequence; 0: as fast as it can");
    visit("--mock-prefill-speed", prefill_speed,
          "prompt tokens a second of all together; 0: at once");
    visit("--mock-load-s", load_s, "seconds that loading takes");
  }
};

// What it says if it is not told: thoughts, then words.
std::string mock_answer(const MockOptions& options);

// The sizes come from the config.json in `folder`; `script` is what follows every prompt. After its
// end it begins again. Where a constraint forbids the script's token, one that it allows is drawn.
Result<LoadedModel> make_mock(const std::string& folder, std::vector<int> script,
                              const MockOptions& options,
                              const std::function<void(const LoadProgress&)>& progress = {});

}  // namespace rose
