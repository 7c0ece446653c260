// How a request with a JSON body comes in, whichever API it is of: its body is parsed and prepared on the
// pool, since that may take long; the answer is made on the connection's thread.
#pragma once
#include <functional>

#include "api/context.h"
#include "api/generation.h"
#include "base/json_fwd.h"

namespace rose {

// All that is known of a request when it goes to the engine, or what is wrong with it.
struct Prepared {
  Problem problem = {};
  std::vector<std::string> ignored = {};  // names of fields without effect
  std::string owner = {};                 // of what the request may store
  GenerationPlan plan = {};
  // What the API makes of the generation; `headers` go with the answer.
  std::function<std::unique_ptr<Answer>(Exchange exchange, Headers headers)> answer = {};
};

// Answers by letting the model speak.
void answer_by_generation(ApiContext& context, Exchange exchange,
                          void (*prepare)(ApiContext& context, const Json& body,
                                          Prepared& prepared));

// Answers at once, with what `answer` makes of the body.
void answer_by_json(ApiContext& context, Exchange exchange,
                    Json (*answer)(ApiContext& context, const Json& body, Problem& problem));

// Computes an answer on the pool; where there is a problem, that is the answer.
void answer_on_pool(Exchange exchange, std::function<HttpResponse(Problem& problem)> work);

// Whose key came with a request: the owner of what it stores.
std::string owner_of(const Exchange& exchange);

// The value of a query's "name=value", percent-decoded; empty if there is none.
std::string query_value(std::string_view query, std::string_view name);

// What every stream of events begins with.
HttpResponse event_stream_head(Headers headers);

}  // namespace rose
