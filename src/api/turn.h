// From a request for a turn to what the engine is asked: the same for every API that lets the model speak.
#pragma once
#include "api/context.h"
#include "api/generation.h"
#include "api/turn_request.h"

namespace rose {

// The model's name as the answer shows it: the first where the request names none. Unknown: a problem.
void check_model(const ApiContext& context, std::string& name, Problem& problem);

// The prompt of a conversation. `param`: the field that it came in, for errors.
std::vector<int> render_turn(const ApiContext& context, ChatPrompt& prompt, const char* param,
                             Problem& problem);

// The whole: prompt, stop tokens, constraint, reasoning budget; refuses what can never fit the context.
GenerationPlan plan_turn(ApiContext& context, TurnRequest& request, const char* param,
                         Problem& problem);

// What can never fit is refused here, in the client's own terms.
void check_length(const ApiContext& context, int prompt, int max_tokens, const char* param,
                  Problem& problem);

}  // namespace rose
