#include "api/turn.h"

#include <algorithm>
#include <ctime>

#include "api/reasoning_budget.h"
#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return strf("%04d-%02d-%02d", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
}

// The constraint of the rules, that of the reasoning budget, or both.
Result<MakeConstraint> constraint_of(ApiContext& context, const TurnRequest& request) {
  if (request.prompt.continues) return MakeConstraint();  // its thought is over, its form is free
  std::optional<TurnRules> rules = turn_rules(request);
  const std::optional<int> budget = request.reasoning_budget;
  if (!budget) return rules ? context.constraints.find(*rules) : Result<MakeConstraint>();

  const bool free = !rules;
  TurnRules bound = rules ? *rules : TurnRules{};
  if (free)  // a turn that is free may call as well as answer
    for (const Tool& tool : request.prompt.tools)
      bound.calls.push_back({.name = tool.name, .parameters = nullptr});
  if (*budget < kLeastReasoning) {
    bound.thinking = TurnRules::Thinking::none;
    return context.constraints.find(bound);
  }
  MakeConstraint turn;
  if (!free) turn = TRY(context.constraints.find(bound));
  bound.thinking = TurnRules::Thinking::ends;
  MakeConstraint ending = TRY(context.constraints.find(bound));
  return limit_reasoning({.tokens = *budget,
                          .vocab = context.tokenizer.vocab(),
                          .format = &context.format,
                          .tools = request.prompt.tools,
                          .turn = std::move(turn),
                          .ending = std::move(ending)});
}

}  // namespace

void check_model(const ApiContext& context, std::string& name, Problem& problem) {
  const std::vector<std::string>& names = context.model.names;
  if (name.empty()) name = names.front();
  if (std::find(names.begin(), names.end(), name) == names.end())
    problem.add(unknown_model(context, name));
}

void check_length(const ApiContext& context, int prompt, int max_tokens, const char* param,
                  Problem& problem) {
  const int most = context.engine.max_context();
  const auto too_long = [&](const std::string& message, const char* field) {
    problem.add({.message = message, .param = field, .code = "context_length_exceeded"});
  };
  if (prompt >= most)
    too_long(
        strf("the prompt has %d tokens; the model's context is %d tokens, one of which must be "
             "left for the answer",
             prompt, most),
        param);
  else if (max_tokens > most - prompt)
    too_long(
        strf("the prompt has %d tokens and max_tokens is %d, together %ld; the model's context "
             "is %d tokens",
             prompt, max_tokens, long(prompt) + max_tokens, most),
        "max_tokens");
}

std::vector<int> render_turn(const ApiContext& context, ChatPrompt& prompt, const char* param,
                             Problem& problem) {
  const std::string& date = context.options.date;
  prompt.current_date = date.empty() ? today() : date == "none" ? "" : date;
  auto tokens = context.format.render(prompt);
  if (tokens) return std::move(*tokens);
  ApiError error = api_error(tokens.error());
  error.param = param;
  problem.add(std::move(error));
  return {};
}

GenerationPlan plan_turn(ApiContext& context, TurnRequest& turn, const char* param,
                         Problem& problem) {
  GenerationPlan plan;
  check_model(context, turn.model, problem);
  if (problem) return plan;
  std::vector<int> prompt = render_turn(context, turn.prompt, param, problem);
  if (problem) return plan;
  Request request = std::move(turn.generate.request);
  plan.choice = {.stop = turn.generate.stop,
                 .include_stop = turn.generate.include_stop,
                 .min_tokens = request.min_tokens,
                 .include_reasoning = turn.include_reasoning,
                 .logprobs = turn.logprobs,
                 .one_call = turn.one_call,
                 .stop_tokens = request.stop_tokens};
  request.prompt = std::move(prompt);
  if (!turn.generate.ignore_eos)
    for (const int token : context.format.stop_tokens()) request.stop_tokens.push_back(token);
  plan.parser = [&format = context.format, tools = turn.prompt.tools,
                 continues = turn.prompt.continues] {
    auto parser = format.parser(tools);
    std::vector<ChatEvent> none;
    if (continues)
      for (const int token : format.answer_head()) parser->push(token, none);
    return parser;
  };
  auto constraint = constraint_of(context, turn);
  if (!constraint &&
      !turn.default_strict.empty()) {  // each can be kept, but not all of them together
    for (const std::string& name : turn.default_strict) turn.strict_tools.erase(name);
    constraint = constraint_of(context, turn);
  }
  if (!constraint) {
    const std::string& message = constraint.error().message;
    problem.add(
        {.message = message,
         .param = message.starts_with("the parameters of tool") ? "tools" : turn.output.field});
    return plan;
  }
  request.constraint = std::move(*constraint);
  check_length(context, int(request.prompt.size()), request.max_tokens, param, problem);
  plan.requests.push_back(std::move(request));
  return plan;
}

}  // namespace rose
