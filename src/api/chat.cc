// POST /v1/chat/completions: request -> prompt -> engine -> answer.
#include <ctime>

#include "api/body.h"
#include "api/chat_answer.h"
#include "api/chat_request.h"
#include "api/ids.h"
#include "api/routes.h"
#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

// All that is known of a request when it goes to the engine, or what is wrong with it.
struct Prepared {
  Problem problem;
  ChatRequest chat;
  GenerationPlan plan;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return strf("%04d-%02d-%02d", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
}

// What can never fit is refused here, in the client's own terms.
void check_length(int prompt, int max_tokens, int context, Problem& problem) {
  const auto too_long = [&](const std::string& message, const char* param) {
    problem.add({.message = message, .param = param, .code = "context_length_exceeded"});
  };
  if (prompt >= context)
    too_long(
        strf(
            "the prompt has %d tokens; the model's context is %d tokens, one of which must be left "
            "for the answer",
            prompt, context),
        "messages");
  else if (max_tokens > context - prompt)
    too_long(strf("the prompt has %d tokens and max_tokens is %d, together %ld; the model's "
                  "context is %d "
                  "tokens",
                  prompt, max_tokens, long(prompt) + max_tokens, context),
             "max_tokens");
}

void prepare_plan(ApiContext& context, Prepared& prepared) {
  ChatRequest& chat = prepared.chat;
  const std::string& date = context.options.date;
  chat.prompt.current_date = date.empty() ? today() : date == "none" ? "" : date;
  auto prompt = context.format.render(chat.prompt);
  if (!prompt) {
    ApiError error = api_error(prompt.error());
    error.param = "messages";
    return prepared.problem.add(std::move(error));
  }
  GenerationPlan& plan = prepared.plan;
  plan.choice = {.stop = chat.generate.stop,
                 .include_stop = chat.generate.include_stop,
                 .min_tokens = chat.generate.request.min_tokens,
                 .include_reasoning = chat.include_reasoning,
                 .logprobs = chat.logprobs,
                 .stop_tokens = chat.generate.request.stop_tokens};
  plan.request = std::move(chat.generate.request);
  plan.request.prompt = std::move(*prompt);
  if (!chat.generate.ignore_eos)
    for (const int token : context.format.stop_tokens()) plan.request.stop_tokens.push_back(token);
  plan.tools = chat.prompt.tools;
  if (const std::optional<TurnRules> rules = turn_rules(chat)) {
    auto constraint = context.constraints.find(*rules);
    if (!constraint) {
      const std::string& message = constraint.error().message;
      return prepared.problem.add(
          {.message = message,
           .param = message.starts_with("the parameters of tool") ? "tools" : chat.output.field});
    }
    plan.request.constraint = std::move(*constraint);
  }
  check_length(int(plan.request.prompt.size()), plan.request.max_tokens,
               context.engine.max_context(), prepared.problem);
}

Prepared prepare(ApiContext& context, const std::string& text) {
  Prepared prepared;
  Problem& problem = prepared.problem;
  const std::optional<Json> body = parse_body(context.options, text, problem);
  if (!body) return prepared;
  prepared.chat = parse_chat_request(*body, context.tokenizer.vocab(), problem);
  if (problem) return prepared;
  const std::vector<std::string>& names = context.model.names;
  if (prepared.chat.model.empty()) prepared.chat.model = names.front();
  if (std::find(names.begin(), names.end(), prepared.chat.model) == names.end())
    problem.add(unknown_model(context, prepared.chat.model));
  else
    prepare_plan(context, prepared);
  return prepared;
}

// The client learns which of its fields had no effect.
Headers ignored_header(ApiContext& context, const std::vector<std::string>& ignored) {
  std::string names;
  for (const std::string& name : ignored) {
    context.metrics.ignored_field(name);
    if (names.size() < 500) names += (names.empty() ? "" : ", ") + name.substr(0, 64);
  }
  if (names.empty()) return {};
  return {{"X-Rose-Ignored-Params", names}};
}

void begin(ApiContext& context, Exchange& exchange, Prepared& prepared) {
  if (!prepared.problem && context.draining)
    prepared.problem.add({.status = 503, .message = "the server is shutting down"});
  if (prepared.problem) {
    context.metrics.ended({.reason = "rejected"});
    return exchange.respond(error_response(*prepared.problem.first));
  }
  const ChatRequest& chat = prepared.chat;
  ChatAnswerOptions options = {.id = new_id("chatcmpl-", 32),
                               .model = chat.model,
                               .fingerprint = "rose-" + context.model.version,
                               .created = std::time(nullptr),
                               .choices = prepared.plan.request.choices,
                               .logprobs = chat.logprobs,
                               .include_usage = chat.include_usage,
                               .continuous_usage = chat.continuous_usage,
                               .headers = ignored_header(context, chat.ignored)};
  auto answer = chat.stream ? make_chat_stream(exchange, context.tokenizer, std::move(options))
                            : make_chat_body(exchange, context.tokenizer, std::move(options));
  Generation::start(context, exchange, std::move(prepared.plan), std::move(answer));
}

}  // namespace

// Parsing and tokenizing may take long: they happen on the pool, the rest on the connection's thread.
void post_chat_completions(ApiContext& context, Exchange exchange) {
  const auto arrived = std::chrono::steady_clock::now();
  exchange.offload([&context, exchange, arrived] {
    // The request stays as it is until it is answered, also when its client leaves.
    const auto prepared = std::make_shared<Prepared>(prepare(context, exchange.request().body));
    prepared->plan.arrived = arrived;
    exchange.post(
        [&context, exchange, prepared]() mutable { begin(context, exchange, *prepared); });
  });
}

}  // namespace rose
