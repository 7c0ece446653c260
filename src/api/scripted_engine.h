// For tests: an engine that says what it is told, token by token, from its own thread as the real one
// does, and remembers what it was asked.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "engine/engine.h"

namespace rose::testing {

class ScriptedEngine final : public Engine {
 public:
  // The tokens that a choice generates; it ends at the first stop token or at max_tokens.
  std::function<std::vector<int>(const Request& request, int choice)> script;
  int chunk = 1;                 // tokens in an update
  int hold_after = 1 << 30;      // tokens after which a choice waits for release()
  Finish ending = Finish::none;  // instead of the natural one
  bool busy = false;
  int cached_tokens = 0;

  ScriptedEngine() : thread_([this] { run(); }) { memory_.max_context = 4096; }
  ~ScriptedEngine() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (auto& [id, running] : running_) running.cancelled = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Result<RequestId> submit(Request request, Sink sink) override {
    const std::lock_guard lock(mutex_);
    if (busy) return fail(ErrorKind::busy, "the queue is full: 7 requests wait");
    const RequestId id = ++last_id_;
    requests_.push_back(request);
    Running running{std::move(request), std::move(sink), {}, false, 0};
    for (int choice = 0; choice < running.request.choices; ++choice) {
      std::vector<int> tokens = running.request.opening;
      for (const int token : script(running.request, choice)) tokens.push_back(token);
      running.choices.push_back({std::move(tokens), 0, false});
    }
    running.open = running.request.choices;
    running_.emplace(id, std::move(running));
    changed_.notify_all();
    return id;
  }
  void cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    if (const auto found = running_.find(id); found != running_.end()) {
      found->second.cancelled = true;
      ++cancelled_;
    }
    changed_.notify_all();
  }
  void drain() override { wait_until_idle(); }
  EngineStats stats() const override {
    const std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    stats.running = int(running_.size());
    return stats;
  }
  const KvMemory& memory() const override { return memory_; }
  KvMemory& memory() { return memory_; }

  void release() {
    const std::lock_guard lock(mutex_);
    hold_after = 1 << 30;
    changed_.notify_all();
  }
  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_.empty(); });
  }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  int cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

 private:
  struct Line {
    std::vector<int> tokens;
    int next = 0;
    bool ended = false;
  };
  struct Running {
    Request request;
    Sink sink;
    std::vector<Line> choices;
    bool cancelled = false;
    int open = 0;
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      bool progress = false;
      for (auto it = running_.begin(); it != running_.end();) {
        for (int choice = 0; choice < int(it->second.choices.size()); ++choice)
          progress |= step(it->second, choice);
        if (it->second.open == 0) {
          it = running_.erase(it);
          changed_.notify_all();
        } else {
          ++it;
        }
      }
      if (progress) continue;
      if (stopping_) return;
      changed_.wait(lock);
    }
  }

  // True if something was said.
  bool step(Running& running, int choice) {
    Line& line = running.choices[size_t(choice)];
    if (line.ended) return false;
    Update update{.choice = choice, .cached_tokens = cached_tokens};
    if (running.cancelled) {
      update.finish = Finish::cancelled;
    } else if (line.next >= hold_after) {
      return false;
    } else {
      const Request& request = running.request;
      for (int i = 0; i < chunk && update.finish == Finish::none; ++i) {
        if (line.next == int(line.tokens.size())) {
          update.finish = Finish::length;
          break;
        }
        const int token = line.tokens[size_t(line.next++)];
        GeneratedToken generated{.token = token, .logprob = -0.25f * float(line.next), .top = {}};
        for (int other = 0; other < request.sampling.logprobs; ++other)
          generated.top.push_back({token + other, -0.5f * float(other + 1)});
        update.tokens.push_back(std::move(generated));
        ++stats_.generated_tokens;
        const std::vector<int>& stops = request.stop_tokens;
        const bool given = line.next <= int(request.opening.size());
        if (!given && std::find(stops.begin(), stops.end(), token) != stops.end())
          update.finish = Finish::stop;
        else if (request.max_tokens == line.next)
          update.finish = Finish::length;
      }
      if (update.finish != Finish::none && ending != Finish::none) update.finish = ending;
    }
    if (update.finish != Finish::none) {
      line.ended = true;
      --running.open;
    }
    running.sink(update);
    return true;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Running> running_;
  std::vector<Request> requests_;
  RequestId last_id_ = 0;
  int cancelled_ = 0;
  bool stopping_ = false;
  EngineStats stats_;
  KvMemory memory_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace rose::testing
