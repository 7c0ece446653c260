// The body of POST /v1/chat/completions. Every field that OpenAI or a widely used server documents
// either works or is refused by name; fields that nobody documents are ignored and reported.
#pragma once
#include <vector>

#include "api/known_fields.h"
#include "api/turn_request.h"

namespace rose {

struct ChatRequest : TurnRequest {
  bool return_token_ids = false;
  bool include_usage = false;     // a last chunk with the usage
  bool continuous_usage = false;  // the usage so far in every chunk
};

// `body` is an object.
ChatRequest parse_chat_request(const Json& body, int vocab, Problem& problem);

// The array `messages` in every shape that clients send it (chat_messages.cc).
std::vector<ChatMessage> parse_messages(const Json& messages, Problem& problem);

// "logprobs": true and "top_logprobs".
void read_chat_logprobs(Fields& fields, TurnRequest& into);

}  // namespace rose
