// The engine at work: its thread takes what clients ask for out of the inbox, runs steps, and tells each
// client what came of them.
#pragma once
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/runner.h"

namespace rose {

class EngineLoop final : public Engine {
 public:
  EngineLoop(const EngineOptions& options, const KvMemory& memory, int window, Runner runner);
  ~EngineLoop() override;

  Result<RequestId> submit(Request request, Sink sink) override;
  void cancel(RequestId id) override;
  void drain() override;
  EngineStats stats() const override;
  const KvMemory& memory() const override { return memory_; }

 private:
  struct Message {
    RequestId id = 0;
    bool cancels = false;
    Time submitted = {};
    Request request = {};
    Sink sink = {};
  };
  struct Client {  // of one request
    Sink sink;
    int open_choices = 0;
  };
  struct News {
    RequestId id;
    Update update;
  };

  Status check_queue(int64_t prompt_tokens) const;
  void run();
  bool take_messages();
  void turn();
  void settle();
  void accept(Message message);
  void tell(const Sequence& sequence, Sampled* sampled);
  void publish();
  void deliver();

  // Constant after construction.
  const EngineOptions options_;
  const KvMemory memory_;

  // Of the engine's thread alone.
  Runner runner_;
  Scheduler scheduler_;
  std::unique_ptr<Flight> flight_;  // the step under way
  std::map<RequestId, Client> clients_;
  std::vector<News> news_;  // of this turn
  EngineStats counts_;      // what the scheduler does not count
  const Scheduler::Tell tell_ = [this](const Sequence& sequence, Sampled* sampled) {
    tell(sequence, sampled);
  };

  // Protected by mutex_.
  mutable std::mutex mutex_;
  std::condition_variable inbox_changed_, became_idle_;
  std::vector<Message> inbox_;
  int submitted_ = 0, submitted_choices_ = 0;  // requests in the inbox
  int64_t submitted_tokens_ = 0;               // of their prompts
  RequestId last_id_ = 0;
  bool idle_ = false;
  bool draining_ = false;
  bool stopping_ = false;
  EngineStats stats_;

  std::thread thread_;
};

}  // namespace rose
