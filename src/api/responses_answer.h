// A response of the Responses API as its client sees it: one JSON body, or a stream of events; and as it is
// stored.
#pragma once
#include <memory>
#include <string>

#include "api/generation.h"
#include "api/response_items.h"
#include "base/json_fwd.h"

namespace rose {

struct ResponsesAnswerOptions {
  std::string id;  // "resp_…"
  std::string model;
  std::string owner;
  std::string previous;
  int64_t created = 0;  // seconds since 1970
  std::shared_ptr<const Json> echo;
  std::string input_items;  // JSON, for the store
  bool store = false;
  bool stream = false;
  bool background = false;
  ResponseItems::Options items;
  Headers headers = {};  // of the HTTP answer
};

// The response in this state, without output: what is stored of one that has just been accepted.
std::string begun_response(const ResponsesAnswerOptions& options, const char* status);

std::unique_ptr<Answer> make_responses_answer(ApiContext& context, Exchange exchange,
                                              ResponsesAnswerOptions options);

}  // namespace rose
