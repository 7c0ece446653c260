// Parts of answers as JSON text that several APIs share, written by hand: they come once a token.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "api/generation.h"

namespace rose {

// "name":"text", and a comma before it unless it is the first of its object.
void append_field(std::string& out, std::string_view name, std::string_view text);

// JSON has no infinity; OpenAI writes -9999 for what is impossible, and null where there is none.
std::string logprob_text(float logprob);

// {"token","logprob","bytes","top_logprobs"}, one after another with commas between them.
void append_logprobs(std::string& out, const Tokenizer& tokenizer,
                     const std::vector<GeneratedToken>& tokens);

// {"prompt_tokens",…}, as Chat Completions and Completions count.
std::string usage_json(const Usage& usage);

// "stop","stop_reason":null: what comes after "finish_reason":
std::string ending_json(const Choice& choice);

}  // namespace rose
