// The body of POST /v1/responses.
#pragma once
#include <string>
#include <vector>

#include "api/known_fields.h"
#include "api/turn_request.h"
#include "base/json.h"

namespace rose {

struct ResponsesRequest : TurnRequest {
  Json input = Json::array();  // the items of this request, each with an id and a type
  std::string instructions;
  std::string previous;  // the response it goes on from, or empty
  bool store = true;
  bool background = false;
  bool encrypted_reasoning = false;
  Json echo;  // what the response repeats of the request, in the order of its fields
};

// `body` is an object. The prompt has no messages yet: what the request goes on from is not known here.
ResponsesRequest parse_responses_request(const Json& body, int vocab, Problem& problem);

// Items as messages, after those that are there (response_input.cc). `path`: "input", for errors.
void append_items(const Json& items, const std::string& path, Problem& problem,
                  std::vector<ChatMessage>& messages);

}  // namespace rose
