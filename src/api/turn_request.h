// What every API that lets the model speak comes down to: a conversation, what may be said, how tokens
// are chosen. Each API reads its own fields into this; what follows is the same for all (turn.h).
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/output_fields.h"
#include "api/sampling_fields.h"
#include "text/chat_format.h"

namespace rose {

struct TurnRequest {
  std::string model;  // empty: the one that is served
  ChatPrompt prompt;
  GenerateFields generate;
  OutputFields output;

  enum class ToolChoice { none, automatic, required };
  ToolChoice tool_choice = ToolChoice::automatic;
  std::set<std::string> strict_tools;    // whose arguments must follow their schema
  std::set<std::string> default_strict;  // those of them of which nobody said so: if it is possible
  // Tools that take any text, by name, and its format as it was asked for (custom_input.h).
  std::map<std::string, std::shared_ptr<const Json>> custom_tools;
  std::set<std::string> callable;  // the only ones that may be called, if not empty
  bool one_call = false;           // no more than one a turn

  bool stream = false;
  bool include_reasoning = true;
  std::optional<int> reasoning_budget;  // in tokens
  bool logprobs = false;

  // Names of fields without effect that the client should know of.
  std::vector<std::string> ignored;
};

// Text as a string or as an array of text parts, joined without a separator.
std::string read_text(Fields& fields, const char* name);

// "tools"; "tool_choice" and "parallel_tool_calls". `nested` as Chat Completions writes them,
// {"type", "function": {"name"}}, or flat as Responses does, {"type", "name"}.
enum class ToolStyle { nested, flat };
void read_tools(Fields& fields, ToolStyle style, TurnRequest& into);
void read_tool_choice(Fields& fields, ToolStyle style, TurnRequest& into);

// Adds a tool, or says what is wrong with its name.
void add_tool(Fields& fields, Tool tool, bool strict, TurnRequest& into);

// The effort and the budget of reasoning in all their spellings, and whether it is shown.
void read_reasoning_fields(Fields& fields, TurnRequest& into);
// Harmony knows three efforts; what lies outside is the nearest. "none": no reasoning at all.
void read_effort(Fields& fields, const char* name, TurnRequest& into);
void read_reasoning_budget(Fields& fields, const char* name, TurnRequest& into);

// Lets the answer go on with the last message, or says why it cannot; `field` asked for it.
void continue_last_message(Fields& fields, const char* field, TurnRequest& into);

// What the turn must be; nothing: it is free.
std::optional<TurnRules> turn_rules(const TurnRequest& request);

}  // namespace rose
