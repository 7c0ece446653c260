// What tests of the engine share: a listener, requests, an engine over the fake model that checks itself after
// every step, and the devices it runs on.
#pragma once
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_model.h"

namespace rose::testing {

// Collects what one request is told; `wait` returns when every choice has ended.
class Listener {
 public:
  explicit Listener(int choices = 1) : answers(size_t(choices)), open_(choices) {}

  Sink sink() {
    return [this](const Update& update) {
      const std::lock_guard lock(mutex_);
      Answer& answer = answers[size_t(update.choice)];
      EXPECT_EQ(answer.finish, Finish::none) << "told after the end";
      for (const GeneratedToken& token : update.tokens) {
        answer.tokens.push_back(token.token);
        answer.news.push_back(token);
      }
      answer.finish = update.finish;
      answer.cached_tokens = update.cached_tokens;
      if (update.finish != Finish::none) --open_;
      changed_.notify_all();
    };
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_ == 0; });
  }
  void wait_for_tokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answers[0].tokens.size() >= count || open_ == 0; });
  }

  struct Answer {
    std::vector<int> tokens;
    std::vector<GeneratedToken> news;
    Finish finish = Finish::none;
    int cached_tokens = 0;
  };
  std::vector<Answer> answers;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_;
};

inline std::vector<int> prompt_of(int tokens, int seed) {
  std::vector<int> prompt;
  for (int i = 0; i < tokens; ++i)
    prompt.push_back(int(random_bits(uint64_t(seed), uint64_t(i)) % kFakeVocab));
  return prompt;
}

inline Request greedy(std::vector<int> prompt, int max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

inline std::unique_ptr<Engine> start(FakeHost& host, EngineOptions options) {
  options.check_invariants = true;
  auto engine = Engine::start(host.loaded, host.stream, options);
  EXPECT_TRUE(engine.has_value()) << engine.error().message;
  return engine ? std::move(*engine) : nullptr;
}

inline EngineOptions small() {
  return {.max_context = 1024,
          .max_seqs = 4,
          .max_tokens_per_step = 96,
          .kv_bytes = 64 * fake_page_bytes()};
}

// Holds the engine at the beginning of each step until the test lets one go.
class Gate {
 public:
  explicit Gate(FakeHost& host) {
    host.model->before_step = [this] {
      std::unique_lock lock(mutex_);
      ++arrived_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return permits_ > 0; });
      --permits_;
    };
  }
  void wait_for_step(int step) {  // 1: the first
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= step; });
  }
  void let_go(int steps) {
    const std::lock_guard lock(mutex_);
    permits_ += steps;
    changed_.notify_all();
  }
  static constexpr int kAll = 1 << 30;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0, permits_ = 0;
};

// Everything holds on a device that is done when a launch returns, and on one that is a step behind.
class EngineOn : public ::testing::TestWithParam<const Device*> {
 protected:
  bool late() const { return GetParam() != &host_device(); }
};

}  // namespace rose::testing
