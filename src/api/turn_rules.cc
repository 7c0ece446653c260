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
