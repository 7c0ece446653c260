#include "cli/completions.h"

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace rose {

Result<std::vector<std::vector<Completion>>> complete_all(
    Engine& engine, std::vector<Request> requests, int in_flight,
    const std::function<void(int done)>& on_done) {
  std::vector<std::vector<Completion>> completions;
  for (const Request& request : requests) completions.emplace_back(size_t(request.choices));

  // Guarded by `mutex`: the sinks run on the engine's thread.
  std::mutex mutex;
  std::condition_variable changed;
  int choices_done = 0, requests_done = 0;

  const auto wait_until = [&](int requests_wanted) {
    std::unique_lock lock(mutex);
    int reported = choices_done;
    while (requests_done < requests_wanted) {
      changed.wait(lock);
      if (!on_done || choices_done == reported) continue;
      reported = choices_done;
      lock.unlock();
      on_done(reported);
      lock.lock();
    }
  };

  std::vector<int> open(requests.size());  // choices of each request that still run
  Status refused = Done{};
  int submitted = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    wait_until(int(i) - in_flight + 1);
    open[i] = requests[i].choices;
    const Time start = Clock::now();
    const Sink sink = [&, i, start](const Update& update) {
      const std::lock_guard lock(mutex);
      Completion& completion = completions[i][size_t(update.choice)];
      if (completion.tokens.empty() && !update.tokens.empty())
        completion.first_token_seconds = seconds_since(start);
      completion.tokens.insert(completion.tokens.end(), update.tokens.begin(), update.tokens.end());
      completion.cached_tokens = update.cached_tokens;
      if (update.finish == Finish::none) return;
      completion.finish = update.finish;
      completion.seconds = seconds_since(start);
      ++choices_done;
      if (--open[i] == 0) ++requests_done;
      changed.notify_one();
    };
    const Result<RequestId> id = engine.submit(std::move(requests[i]), sink);
    if (!id) {
      refused = tl::unexpected<Error>(id.error());
      break;
    }
    ++submitted;
  }
  wait_until(submitted);  // also after a refusal: the sinks point into this frame
  TRY(std::move(refused));
  return completions;
}

}  // namespace rose
