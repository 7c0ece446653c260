#include <algorithm>
#include <limits>

#include "api/turn_request.h"
#include "base/json.h"

namespace rose {

namespace {

struct Effort {
  const char* name;
  ReasoningEffort effort;
  bool none = false;
};

constexpr Effort kEfforts[] = {
    {"none", ReasoningEffort::low, true}, {"minimal", ReasoningEffort::low},
    {"low", ReasoningEffort::low},        {"medium", ReasoningEffort::medium},
    {"high", ReasoningEffort::high},      {"xhigh", ReasoningEffort::high},
    {"max", ReasoningEffort::high},
};

void limit(int tokens, TurnRequest& into) {
  into.reasoning_budget = std::min(into.reasoning_budget.value_or(tokens), tokens);
}

// A switch that some servers have: off is no reasoning.
void read_switch(Fields& fields, const char* name, TurnRequest& into) {
  bool on = true;
  fields.read(name, on);
  if (!on) limit(0, into);
}

}  // namespace

void read_effort(Fields& fields, const char* name, TurnRequest& into) {
  std::string wanted;
  fields.read(name, wanted);
  if (wanted.empty()) return;
  for (const Effort& effort : kEfforts) {
    if (wanted != effort.name) continue;
    into.prompt.effort = effort.effort;
    if (effort.none) limit(0, into);
    return;
  }
  fields.wrong(name, "'" + wanted.substr(0, 80) + "' is not possible, wanted low, medium or high");
}

void read_reasoning_budget(Fields& fields, const char* name, TurnRequest& into) {
  int tokens = -1;
  fields.read(name, tokens, -1, std::numeric_limits<int>::max());
  if (tokens >= 0) limit(tokens, into);
}

void read_reasoning_fields(Fields& fields, TurnRequest& into) {
  read_effort(fields, "reasoning_effort", into);
  for (const char* name :
       {"thinking_token_budget", "thinking_budget", "reasoning_budget", "max_reasoning_tokens"})
    read_reasoning_budget(fields, name, into);
  fields.read("include_reasoning", into.include_reasoning);

  if (const Json* reasoning = fields.object("reasoning")) {
    Fields inner(*reasoning, fields.path() + "reasoning.", fields.problem());
    read_effort(inner, "effort", into);
    read_reasoning_budget(inner, "max_tokens", into);
    read_switch(inner, "enabled", into);
    bool exclude = false;
    inner.read("exclude", exclude);
    if (exclude) into.include_reasoning = false;
  }
  if (const Json* thinking = fields.object("thinking")) {
    Fields inner(*thinking, fields.path() + "thinking.", fields.problem());
    std::string type = "enabled";
    inner.read("type", type);
    if (type == "disabled")
      limit(0, into);
    else if (type != "enabled" && type != "adaptive")
      inner.wrong("type", "'" + type.substr(0, 80) + "', wanted enabled, disabled or adaptive");
    read_reasoning_budget(inner, "budget_tokens", into);
  }
  if (const Json* keywords = fields.object("chat_template_kwargs")) {
    Fields inner(*keywords, fields.path() + "chat_template_kwargs.", fields.problem());
    read_effort(inner, "reasoning_effort", into);
    read_reasoning_budget(inner, "thinking_budget", into);
    read_switch(inner, "enable_thinking", into);
    for (const auto& [name, value] : keywords->items())
      if (name != "reasoning_effort" && name != "thinking_budget" && name != "enable_thinking")
        into.ignored.push_back("chat_template_kwargs." + name);
  }
}

}  // namespace rose
