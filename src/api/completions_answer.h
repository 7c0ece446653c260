// A completion as its client sees it: one JSON body, or chunks of an event stream.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "api/generation.h"

namespace rose {

struct CompletionsAnswerOptions {
  std::string id;  // "cmpl-…"
  std::string model = {};
  std::string fingerprint;
  int64_t created = 0;  // seconds since 1970
  int choices = 1;
  bool echo = false;                      // each text begins with its prompt
  std::vector<std::string> prompts = {};  // of each choice, where they are echoed
  bool logprobs = false;
  bool shows_specials = false;
  bool include_usage = false, continuous_usage = false;  // of a stream
  Headers headers = {};                                  // of the HTTP answer
};

std::unique_ptr<Answer> make_completions_body(Exchange exchange, const Tokenizer& tokenizer,
                                              CompletionsAnswerOptions options);
std::unique_ptr<Answer> make_completions_stream(Exchange exchange, const Tokenizer& tokenizer,
                                                CompletionsAnswerOptions options);

}  // namespace rose
