// POST /v1/chat/completions, and what its prompt would be.
#include <ctime>

#include "api/chat_answer.h"
#include "api/chat_request.h"
#include "api/ids.h"
#include "api/intake.h"
#include "api/routes.h"
#include "api/turn.h"
#include "base/json.h"

namespace rose {

namespace {

void prepare_chat(ApiContext& context, const Json& body, Prepared& prepared) {
  ChatRequest chat = parse_chat_request(body, context.tokenizer.vocab(), prepared.problem);
  prepared.ignored = chat.ignored;
  if (prepared.problem) return;
  prepared.plan = plan_turn(context, chat, "messages", prepared.problem);
  if (prepared.problem) return;
  const Request& request = prepared.plan.requests.front();
  ChatAnswerOptions options = {
      .id = new_id("chatcmpl-", 32),
      .model = chat.model,
      .fingerprint = "rose-" + context.model.version,
      .created = std::time(nullptr),
      .choices = request.choices,
      .logprobs = chat.logprobs,
      .token_ids = chat.return_token_ids,
      .prompt_token_ids = chat.return_token_ids ? request.prompt : std::vector<int>{},
      .include_usage = chat.include_usage,
      .continuous_usage = chat.continuous_usage,
  };
  prepared.answer = [&context, options, stream = chat.stream](Exchange exchange,
                                                              Headers headers) mutable {
    options.headers = std::move(headers);
    return stream ? make_chat_stream(exchange, context.tokenizer, std::move(options))
                  : make_chat_body(exchange, context.tokenizer, std::move(options));
  };
}

Json render(ApiContext& context, const Json& body, Problem& problem) {
  ChatRequest chat = parse_chat_request(body, context.tokenizer.vocab(), problem);
  if (problem) return {};
  check_model(context, chat.model, problem);
  const std::vector<int> tokens = render_turn(context, chat.prompt, "messages", problem);
  return {{"object", "chat.completion.prompt"},
          {"model", chat.model},
          {"prompt", context.tokenizer.decode(tokens)},
          {"tokens", tokens},
          {"count", tokens.size()},
          {"max_model_len", context.engine.max_context()}};
}

}  // namespace

void post_chat_completions(ApiContext& context, Exchange exchange) {
  answer_by_generation(context, std::move(exchange), prepare_chat);
}

// The exact prompt of a chat request, as text and as tokens.
void post_render(ApiContext& context, Exchange exchange) {
  answer_by_json(context, std::move(exchange), render);
}

}  // namespace rose
