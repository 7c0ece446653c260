// Where `rose chat` gets its answers: a model in this process, or a server.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "cli/session.h"
#include "text/chat_format.h"

namespace rose {

struct ChatAnswer {
  std::string finish_reason;
  int prompt_tokens = 0;
  int cached_tokens = 0;
  int completion_tokens = 0;
  double first_token_seconds = 0;
  double seconds = 0;
};

struct ChatSampling {
  double temperature = 1;
  double top_p = 1;
  int max_tokens = 0;  // 0: as many as the context holds
};

class ChatBackend {
 public:
  virtual ~ChatBackend() = default;
  virtual std::string name() const = 0;
  // Streams the answer to the prompt; ends early, but well, when `stop` becomes true.
  virtual Result<ChatAnswer> answer(const ChatPrompt& prompt, const ChatSampling& sampling,
                                    const std::function<void(const ChatEvent&)>& on_event,
                                    const std::atomic<bool>& stop) = 0;
};

Result<std::unique_ptr<ChatBackend>> local_chat(const ModelOptions& options);

// `url` of an OpenAI-compatible server: "http://127.0.0.1:8000" or ending in /v1.
Result<std::unique_ptr<ChatBackend>> remote_chat(const std::string& url, const std::string& model,
                                                 const std::string& api_key);

}  // namespace rose
