// A chat with a model in this process: the format renders and parses, the engine decodes.
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "api/choice.h"
#include "api/constraints.h"
#include "base/check.h"
#include "base/clock.h"
#include "cli/chat_backend.h"

namespace rose {

namespace {

class LocalChat final : public ChatBackend {
 public:
  explicit LocalChat(std::unique_ptr<Session> session)
      : session_(std::move(session)), constraints_(*session_->tokenizer, *session_->format) {}

  std::string name() const override { return session_->name; }
  std::string about() const override {
    const LoadedModel& loaded = session_->runtime->loaded;
    return strf("  %-20s %s\n  %-20s %s\n  %-20s %s, recipe %s\n  %-20s %d tokens\n", "model",
                session_->name.c_str(), "folder", loaded.folder.c_str(), "runs on",
                loaded.ops->name, loaded.recipe ? loaded.recipe->name : "none", "context",
                session_->engine->max_context());
  }

  Result<ChatAnswer> answer(const ChatPrompt& prompt, const ChatSampling& sampling,
                            const std::function<void(const ChatEvent&)>& on_event,
                            const std::atomic<bool>& stop) override {
    Request request = TRY(make_request(prompt, sampling));
    ChatAnswer answer;
    answer.prompt_tokens = int(request.prompt.size());

    // News from the engine's thread, parsed and shown on ours.
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<GeneratedToken> arrived;
    Finish finish = Finish::none;

    const Time start = Clock::now();
    const RequestId id =
        TRY(session_->engine->submit(std::move(request), [&](const Update& update) {
          const std::lock_guard lock(mutex);
          arrived.insert(arrived.end(), update.tokens.begin(), update.tokens.end());
          answer.cached_tokens = update.cached_tokens;
          finish = update.finish;
          changed.notify_one();
        }));

    Choice choice(session_->format->parser(prompt.tools), *session_->tokenizer,
                  {.stop = sampling.stop});
    std::vector<Delta> deltas;
    bool cancelled = false, ended = false;
    while (!ended) {
      std::vector<GeneratedToken> tokens;
      {
        std::unique_lock lock(mutex);
        changed.wait_for(lock, std::chrono::milliseconds(50),
                         [&] { return !arrived.empty() || finish != Finish::none; });
        tokens.swap(arrived);
        ended = finish != Finish::none;
      }
      if (answer.completion_tokens == 0 && !tokens.empty())
        answer.first_token_seconds = seconds_since(start);
      for (const GeneratedToken& token : tokens) choice.push(token, deltas);
      if (ended) choice.finish(finish, deltas);
      for (const Delta& delta : deltas) on_event({delta.kind, delta.text, delta.tool_index});
      deltas.clear();
      answer.completion_tokens = choice.completion_tokens();
      // A stop string ends the answer before the engine does.
      if ((stop || choice.finished()) && !cancelled && !ended) {
        cancelled = true;
        session_->engine->cancel(id);
      }
    }
    answer.seconds = seconds_since(start);
    answer.finish_reason = stop ? "stopped" : choice.finish_reason();
    return answer;
  }

 private:
  Result<Request> make_request(const ChatPrompt& asked, const ChatSampling& sampling) {
    ChatPrompt prompt = asked;
    Request request;
    if (sampling.json) {
      prompt.output.kind = OutputFormat::Kind::json_object;
      request.constraint = TRY(constraints_.find({.content = prompt.output}));
    }
    request.prompt = TRY(session_->format->render(prompt));
    request.sampling = {.temperature = float(sampling.temperature),
                        .top_k = sampling.top_k,
                        .top_p = float(sampling.top_p),
                        .min_p = float(sampling.min_p),
                        .presence_penalty = float(sampling.presence_penalty),
                        .frequency_penalty = float(sampling.frequency_penalty),
                        .repetition_penalty = float(sampling.repetition_penalty)};
    if (sampling.seed >= 0) request.sampling.seed = uint64_t(sampling.seed);
    request.max_tokens = sampling.max_tokens;
    request.stop_tokens = session_->stop_tokens;
    return request;
  }

  std::unique_ptr<Session> session_;
  Constraints constraints_;
};

}  // namespace

Result<std::unique_ptr<ChatBackend>> local_chat(const ModelOptions& options) {
  return std::make_unique<LocalChat>(TRY(open_session(options)));
}

}  // namespace rose
