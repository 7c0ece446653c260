// A chat with a model in this process: the format renders and parses, the engine decodes.
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "cli/chat_backend.h"

namespace rose {

namespace {

class LocalChat final : public ChatBackend {
 public:
  explicit LocalChat(std::unique_ptr<Session> session) : session_(std::move(session)) {}

  std::string name() const override { return session_->name; }

  Result<ChatAnswer> answer(const ChatPrompt& prompt, const ChatSampling& sampling,
                            const std::function<void(const ChatEvent&)>& on_event,
                            const std::atomic<bool>& stop) override {
    Request request;
    request.prompt = TRY(session_->format->render(prompt));
    request.sampling.temperature = float(sampling.temperature);
    request.sampling.top_p = float(sampling.top_p);
    request.max_tokens = sampling.max_tokens;
    request.stop_tokens = session_->stop_tokens;
    ChatAnswer answer;
    answer.prompt_tokens = int(request.prompt.size());

    // News from the engine's thread, parsed and shown on ours.
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<int> arrived;
    Finish finish = Finish::none;

    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    const RequestId id =
        TRY(session_->engine->submit(std::move(request), [&](const Update& update) {
          const std::lock_guard lock(mutex);
          for (const GeneratedToken& token : update.tokens) arrived.push_back(token.token);
          answer.cached_tokens = update.cached_tokens;
          finish = update.finish;
          changed.notify_one();
        }));

    const std::unique_ptr<StreamParser> parser = session_->format->parser(prompt.tools);
    std::vector<ChatEvent> events;
    bool cancelled = false, ended = false;
    while (!ended) {
      std::vector<int> tokens;
      {
        std::unique_lock lock(mutex);
        changed.wait_for(lock, std::chrono::milliseconds(50),
                         [&] { return !arrived.empty() || finish != Finish::none; });
        tokens.swap(arrived);
        ended = finish != Finish::none;
      }
      if (stop && !cancelled && !ended) {
        cancelled = true;
        session_->engine->cancel(id);
      }
      if (answer.completion_tokens == 0 && !tokens.empty()) answer.first_token_seconds = elapsed();
      answer.completion_tokens += int(tokens.size());
      for (const int token : tokens) parser->push(token, events);
      if (ended) parser->finish(events);
      for (const ChatEvent& event : events) on_event(event);
      events.clear();
    }
    answer.seconds = elapsed();
    constexpr const char* kReasons[] = {"", "stop", "length", "cancelled", "error"};
    answer.finish_reason = kReasons[int(finish)];
    return answer;
  }

 private:
  std::unique_ptr<Session> session_;
};

}  // namespace

Result<std::unique_ptr<ChatBackend>> local_chat(const ModelOptions& options) {
  return std::make_unique<LocalChat>(TRY(open_session(options)));
}

}  // namespace rose
