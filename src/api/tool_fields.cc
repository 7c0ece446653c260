#include <algorithm>

#include "api/custom_input.h"
#include "api/turn_request.h"
#include "base/check.h"
#include "base/json.h"
#include "text/grammar/json_schema.h"

namespace rose {

namespace {

using ToolChoice = TurnRequest::ToolChoice;

bool decent_tool_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

bool can_be_kept(const Tool& tool) {
  grammar::Grammar grammar;
  return tool.parameters && grammar::json_schema(grammar, *tool.parameters).has_value();
}

bool is_tool(const TurnRequest& request, const std::string& name) {
  const std::vector<Tool>& tools = request.prompt.tools;
  return std::any_of(tools.begin(), tools.end(),
                     [&](const Tool& tool) { return tool.name == name; });
}

// What a custom tool's text must match; empty: any text.
std::string read_custom_format(Fields tool) {
  const Json* format = tool.object("format");
  if (!format) return {};
  Fields inner(*format, tool.path() + "format.", tool.problem());
  std::string type = "text", syntax, definition;
  inner.read("type", type);
  if (type == "text") return {};
  if (type != "grammar") {
    inner.wrong("type", "'" + type.substr(0, 80) + "', wanted text or grammar");
    return {};
  }
  inner.read("syntax", syntax);
  inner.read("definition", definition);
  if (syntax != "regex")
    inner.wrong("syntax", "'" + syntax.substr(0, 80) + "' is not supported, regex is");
  else if (definition.empty())
    inner.wrong("definition", "is missing");
  return definition;
}

void read_custom(Fields tool, TurnRequest& into) {
  Tool parsed;
  tool.read("name", parsed.name);
  tool.read("description", parsed.description);
  parsed.parameters = custom_input_schema(read_custom_format(tool));
  const Json* format = tool.find("format");
  into.custom_tools[parsed.name] =
      std::make_shared<const Json>(format ? *format : Json{{"type", "text"}});
  add_tool(tool, std::move(parsed), true, into);
}

void read_tool(Fields tool, ToolStyle style, TurnRequest& into) {
  std::string type = "function";
  tool.read("type", type);
  if (type == "custom" && style == ToolStyle::flat) return read_custom(tool, into);
  if (type != "function")
    return tool.wrong("type",
                      "unsupported tool type '" + type.substr(0, 80) + "', only 'function'" +
                          (style == ToolStyle::flat ? " and 'custom' are" : " is") + " possible");
  const bool nested = style == ToolStyle::nested || tool.has("function");
  const Json* function = tool.object("function");
  if (nested && !function) return tool.wrong("function", "is missing");
  Fields inner = nested ? Fields(*function, tool.path() + "function.", tool.problem()) : tool;
  Tool parsed;
  inner.read("name", parsed.name);
  inner.read("description", parsed.description);
  if (const Json* parameters = inner.object("parameters"))
    parsed.parameters = std::make_shared<const Json>(*parameters);
  bool strict = false;
  inner.read("strict", strict);
  // Responses keeps calls to their schema unless told not to, where that is possible.
  if (style == ToolStyle::flat && !inner.has("strict") && can_be_kept(parsed)) {
    strict = true;
    into.default_strict.insert(parsed.name);
  }
  add_tool(inner, std::move(parsed), strict, into);
}

// {"type": "function", "function": {"name": …}} or {"type": "function", "name": …}, or the same of a custom
// one; empty: neither.
std::string named(const Json& choice) {
  const Json type = choice.is_object() ? choice.value("type", Json()) : Json();
  if (type != "function" && type != "custom") return {};
  const Json inner = choice.value(type.get_ref<const std::string&>(), Json::object());
  const Json name =
      inner.is_object() && inner.contains("name") ? inner["name"] : choice.value("name", Json());
  return name.is_string() ? name.get<std::string>() : "";
}

// {"type": "allowed_tools", "mode": "auto" | "required", "tools": […]}, nested or flat.
void read_allowed(Fields choice, TurnRequest& into) {
  if (const Json* inner = choice.object("allowed_tools"))
    return read_allowed(Fields(*inner, choice.path() + "allowed_tools.", choice.problem()), into);
  std::string mode = "auto";
  choice.read("mode", mode);
  if (mode != "auto" && mode != "required")
    return choice.wrong("mode", "'" + mode.substr(0, 80) + "', wanted auto or required");
  into.tool_choice = mode == "required" ? ToolChoice::required : ToolChoice::automatic;
  const Json* tools = choice.array("tools");
  if (!tools || tools->empty()) return choice.wrong("tools", "is missing or empty");
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string name = named((*tools)[i]);
    if (!is_tool(into, name))
      return choice.wrong(strf("tools[%zu]", i),
                          "'" + name.substr(0, 80) + "' is none of the tools");
    into.callable.insert(name);
  }
}

}  // namespace

void add_tool(Fields& fields, Tool tool, bool strict, TurnRequest& into) {
  if (!decent_tool_name(tool.name))
    return fields.wrong("name", "wanted 1 to 64 of A-Z, a-z, 0-9, '_', '-', '.'");
  if (is_tool(into, tool.name)) return fields.wrong("name", "'" + tool.name + "' is there twice");
  if (strict) into.strict_tools.insert(tool.name);
  into.prompt.tools.push_back(std::move(tool));
}

void read_tools(Fields& fields, ToolStyle style, TurnRequest& into) {
  const Json* tools = fields.array("tools");
  for (size_t i = 0; tools && i < tools->size() && !fields.problem(); ++i) {
    const std::string name = strf("%stools[%zu]", fields.path().c_str(), i);
    if (!(*tools)[i].is_object())
      return fields.wrong(strf("tools[%zu]", i), kind_of((*tools)[i]) + ", wanted a tool");
    read_tool(Fields((*tools)[i], name + ".", fields.problem()), style, into);
  }
}

void read_tool_choice(Fields& fields, ToolStyle style, TurnRequest& into) {
  bool parallel = true;
  fields.read("parallel_tool_calls", parallel);
  into.one_call = !parallel;
  const Json* choice = fields.find("tool_choice");
  if (!choice) return;
  if (*choice == "none") {
    // Left out of the prompt, tools cannot be called; the parser then knows none either.
    into.tool_choice = ToolChoice::none;
    into.prompt.tools.clear();
  } else if (*choice == "required" || *choice == "any") {
    into.tool_choice = ToolChoice::required;
    if (into.prompt.tools.empty()) fields.wrong("tool_choice", "'required' needs tools");
  } else if (choice->is_object() && choice->value("type", Json()) == "allowed_tools") {
    read_allowed(Fields(*choice, fields.path() + "tool_choice.", fields.problem()), into);
  } else if (choice->is_object()) {
    const std::string name = named(*choice);
    if (name.empty())
      return fields.wrong("tool_choice",
                          style == ToolStyle::nested
                              ? "wanted {\"type\": \"function\", \"function\": {\"name\": …}}"
                              : "wanted {\"type\": \"function\", \"name\": …}");
    into.tool_choice = ToolChoice::required;
    into.callable = {name};
    if (!is_tool(into, name))
      fields.wrong("tool_choice", "'" + name.substr(0, 80) + "' is none of the tools");
  } else if (*choice != "auto") {
    fields.wrong("tool_choice",
                 kind_of(*choice) + ", wanted \"auto\", \"none\", \"required\" or a function");
  }
}

}  // namespace rose
