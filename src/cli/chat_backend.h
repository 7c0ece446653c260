// Where `rose chat` gets its answers: a model in this process, or a server.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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

// How answers are drawn. The list is that of the command's options and of /set parameter.
struct ChatSampling {
  double temperature = 1;
  double top_p = 1;
  int top_k = 0;
  double min_p = 0;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  double repetition_penalty = 1;
  int64_t seed = -1;
  int max_tokens = 0;
  std::vector<std::string> stop;
  bool json = false;  // the answer is a JSON object

  template <class Visit>
  void each(Visit&& visit) {
    visit("--temperature", temperature, "0: always the likeliest token");
    visit("--top-p", top_p, "sample from the likeliest that hold this share");
    visit("--top-k", top_k, "sample from this many of the likeliest; 0: from all");
    visit("--min-p", min_p, "no token below this share of the likeliest");
    visit("--presence-penalty", presence_penalty, "for tokens that came before");
    visit("--frequency-penalty", frequency_penalty, "for each time that a token came before");
    visit("--repetition-penalty,--repeat-penalty", repetition_penalty,
          "divides the logits of tokens that came before");
    visit("--seed", seed, "of the draws; -1: another each time");
    visit("--max-tokens,--num-predict,-n", max_tokens, "of one answer; 0: as many as fit");
    visit("--stop", stop, "texts that end an answer");
  }
};

class ChatBackend {
 public:
  virtual ~ChatBackend() = default;
  virtual std::string name() const = 0;
  // Lines about the model, for /show info.
  virtual std::string about() const = 0;
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
