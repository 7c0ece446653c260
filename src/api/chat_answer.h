// A chat completion as its client sees it: one JSON body, or chunks of an event stream.
#pragma once
#include <memory>
#include <string>

#include "api/generation.h"

namespace rose {

struct ChatAnswerOptions {
  std::string id;  // "chatcmpl-…"
  std::string model;
  std::string fingerprint;
  int64_t created = 0;  // seconds since 1970
  int choices = 1;
  bool logprobs = false;
  bool token_ids = false;                  // of the prompt and of all that was generated
  std::vector<int> prompt_token_ids = {};  // where they are wanted
  bool include_usage = false, continuous_usage = false;  // of a stream
  Headers headers = {};                                  // of the HTTP answer
};

std::unique_ptr<Answer> make_chat_body(Exchange exchange, const Tokenizer& tokenizer,
                                       ChatAnswerOptions options);
std::unique_ptr<Answer> make_chat_stream(Exchange exchange, const Tokenizer& tokenizer,
                                         ChatAnswerOptions options);

}  // namespace rose
