// The body of POST /v1/messages, Anthropic's API.
#pragma once
#include "api/known_fields.h"
#include "api/turn_request.h"

namespace rose {

// `body` is an object.
TurnRequest parse_messages_request(const Json& body, int vocab, Problem& problem);

}  // namespace rose
