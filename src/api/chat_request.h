// The body of POST /v1/chat/completions. Every field that OpenAI or a widely used server documents
// either works or is refused by name; fields that nobody documents are ignored and reported.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "api/output_fields.h"
#include "api/sampling_fields.h"
#include "text/chat_format.h"

namespace rose {

struct ChatRequest {
  std::string model;  // empty: the one that is served
  ChatPrompt prompt;
  GenerateFields generate;
  OutputFields output;

  enum class ToolChoice { none, automatic, required };
  ToolChoice tool_choice = ToolChoice::automatic;
  std::string forced_tool;             // the one to be called, where tool_choice names it
  std::set<std::string> strict_tools;  // whose arguments must follow their schema

  bool stream = false;
  bool include_usage = false;     // a last chunk with the usage
  bool continuous_usage = false;  // the usage so far in every chunk
  bool include_reasoning = true;
  bool logprobs = false;

  std::vector<std::string>
      ignored;  // names of fields without effect that the client should know of
};

ChatRequest parse_chat_request(const Json& body, int vocab, Problem& problem);

// What the turn must be; nothing: it is free.
std::optional<TurnRules> turn_rules(const ChatRequest& request);

// The array `messages` in every shape that clients send it (chat_messages.cc).
std::vector<ChatMessage> parse_messages(const Json& messages, Problem& problem);

}  // namespace rose
