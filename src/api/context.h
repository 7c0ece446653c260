// What handlers share. It outlives every exchange.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "api/background.h"
#include "api/constraints.h"
#include "api/errors.h"
#include "api/event_logs.h"
#include "api/keys.h"
#include "api/metrics.h"
#include "api/otlp.h"
#include "api/response_store.h"
#include "api/server.h"
#include "api/startup.h"

namespace rose {

// Counts the requests that the engine has and will still call back for.
class Activity {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    --count_;
    idle_.notify_all();
  }
  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  int count_ = 0;
};

struct ApiContext;

// What is there from the moment the server listens.
struct ServerState {
  const ServeOptions options;
  const std::string version;  // of rose
  const std::unique_ptr<Keys> keys;
  const std::unique_ptr<RequestLog> log = {};           // may be null
  const std::unique_ptr<SpanExporter> spans = {};       // may be null
  const std::unique_ptr<ResponseStore> responses = {};  // null: none are stored
  std::function<Status()> reload = {};                  // keys and certificates are read again
  Startup startup = {};
  std::atomic<bool> draining = false;
  std::atomic<ApiContext*> api = nullptr;  // null: the model is being loaded
};

// What is there as soon as the model is.
struct ApiContext {
  ServerState& state;
  const ServeOptions& options = state.options;
  const ServedModel model;
  Engine& engine;
  const Tokenizer& tokenizer;
  const ChatFormat& format;
  const int64_t started;  // seconds since 1970
  Metrics metrics;
  ResponseStore* const responses = state.responses.get();  // null: none are stored
  BackgroundWork background = {};
  EventLogs events = EventLogs();
  Activity activity = {};
  Constraints constraints = {tokenizer, format};
  // Text without a chat format.
  const std::unique_ptr<ChatFormat> plain = std::move(*make_chat_format("plain", tokenizer));
  Constraints text_constraints = {tokenizer, *plain};
  std::atomic<bool>& draining = state.draining;
};

// Counts a request that has ended, and tells the log and the collector of it (report.cc).
void report(ApiContext& context, RequestOutcome outcome);

// 404: the name is none of the served ones (models.cc).
ApiError unknown_model(const ApiContext& context, const std::string& name);

}  // namespace rose
