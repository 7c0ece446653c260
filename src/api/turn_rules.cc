#include <algorithm>

#include "api/turn_request.h"
#include "text/grammar/json_schema.h"

namespace rose {

namespace {

// A schema that the client did not ask to be kept to the letter, if it can be kept at all.
std::shared_ptr<const Json> if_possible(const std::shared_ptr<const Json>& schema) {
  grammar::Grammar grammar;
  return schema && grammar::json_schema(grammar, *schema) ? schema : nullptr;
}

}  // namespace

void continue_last_message(Fields& fields, const char* field, TurnRequest& into) {
  const std::vector<ChatMessage>& messages = into.prompt.messages;
  if (messages.empty() || messages.back().role != ChatMessage::Role::assistant ||
      !messages.back().tool_calls.empty())
    return fields.wrong(field, "the last message is no answer of the assistant's");
  if (into.output.format.kind != OutputFormat::Kind::free)
    return fields.wrong(field, "an answer that has begun cannot be held to a form");
  if (into.tool_choice == TurnRequest::ToolChoice::required)
    return fields.wrong(field, "an answer that has begun can be no call");
  into.prompt.continues = true;
}

std::optional<TurnRules> turn_rules(const TurnRequest& request) {
  using Choice = TurnRequest::ToolChoice;
  const std::vector<Tool>& tools = request.prompt.tools;
  const bool forced = request.tool_choice == Choice::required;
  const bool any_strict = std::any_of(tools.begin(), tools.end(), [&](const Tool& tool) {
    return request.strict_tools.contains(tool.name);
  });
  const OutputFormat& format = request.output.format;
  if (format.kind == OutputFormat::Kind::free && !forced && !any_strict && request.callable.empty())
    return std::nullopt;
  TurnRules rules = {.may_answer = !forced, .content = format};
  for (const Tool& tool : tools) {
    if (!request.callable.empty() && !request.callable.contains(tool.name)) continue;
    const bool strict = request.strict_tools.contains(tool.name);
    rules.calls.push_back({.name = tool.name,
                           .parameters = strict   ? tool.parameters
                                         : forced ? if_possible(tool.parameters)
                                                  : nullptr});
  }
  return rules;
}

}  // namespace rose
