// The body of POST /v1/chat/completions. Every field that OpenAI or a widely used server documents
// either works or is refused by name; fields that nobody documents are ignored and reported.
#pragma once
#include <string>
#include <vector>

#include "api/sampling_fields.h"
#include "text/chat_format.h"

namespace rose {

struct ChatRequest {
  std::string model;  // empty: the one that is served
  ChatPrompt prompt;
  GenerateFields generate;
  bool tools_allowed = true;  // tool_choice is not "none"

  bool stream = false;
  bool include_usage = false;     // a last chunk with the usage
  bool continuous_usage = false;  // the usage so far in every chunk
  bool include_reasoning = true;
  bool logprobs = false;

  std::vector<std::string>
      ignored;  // names of fields without effect that the client should know of
};

ChatRequest parse_chat_request(const Json& body, int vocab, Problem& problem);

// The array `messages` in every shape that clients send it (chat_messages.cc).
std::vector<ChatMessage> parse_messages(const Json& messages, Problem& problem);

}  // namespace rose
