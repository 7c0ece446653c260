#include "api/chat_request.h"
#include "api/ids.h"
#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

// {"name":…,"arguments":…}: a string of JSON, verbatim; an object is taken as the JSON it is.
ToolCall parse_function(Fields fields) {
  ToolCall call;
  fields.read("name", call.name);
  if (call.name.empty()) fields.wrong("name", "is missing");
  if (const Json* arguments = fields.find("arguments")) {
    if (arguments->is_object())
      call.arguments = dump_json(*arguments);
    else
      fields.read("arguments", call.arguments);
  }
  return call;
}

void parse_calls(Fields& fields, ChatMessage& message) {
  if (const Json* calls = fields.array("tool_calls")) {
    for (size_t i = 0; i < calls->size(); ++i) {
      const Json& value = (*calls)[i];
      const std::string name = strf("tool_calls[%zu]", i);
      if (!value.is_object()) return fields.wrong(name, kind_of(value) + ", wanted a tool call");
      Fields call(value, fields.path() + name + ".", fields.problem());
      std::string type = "function", id;
      call.read("type", type);
      call.read("id", id);
      if (type != "function")
        return call.wrong("type", "'" + type + "' is not supported, only 'function'");
      const Json* function = call.object("function");
      if (!function) return call.wrong("function", "is missing");
      message.tool_calls.push_back(
          parse_function(Fields(*function, call.path() + "function.", fields.problem())));
      message.tool_calls.back().id = std::move(id);
    }
  }
  // The older form: one call without an id, answered by a message of role "function".
  if (const Json* function = fields.object("function_call"))
    message.tool_calls.push_back(
        parse_function(Fields(*function, fields.path() + "function_call.", fields.problem())));
}

void parse_assistant(Fields& fields, ChatMessage& message) {
  fields.read("reasoning_content", message.reasoning);
  fields.read("reasoning", message.reasoning);  // the same text where both are given
  if (!fields.has("content")) fields.read("refusal", message.content);
  parse_calls(fields, message);
}

ChatMessage parse_message(Fields fields) {
  ChatMessage message;
  std::string role;
  fields.read("role", role);
  fields.read("name", message.name);
  // A tool's result that is JSON and not the text of it.
  const Json* content = fields.find("content");
  if (content && content->is_object() && (role == "tool" || role == "function"))
    message.content = dump_json(*content);
  else
    message.content = read_text(fields, "content");
  using enum ChatMessage::Role;
  if (role == "system")
    message.role = system;
  else if (role == "developer")
    message.role = developer;
  else if (role == "user")
    message.role = user;
  else if (role == "assistant")
    message.role = assistant;
  else if (role == "tool" || role == "function")
    message.role = tool;
  else if (role.empty())
    fields.wrong("role", "is missing");
  else
    fields.wrong("role",
                 "'" + role + "' is unknown, wanted system, developer, user, assistant or tool");
  if (message.role == assistant) {
    parse_assistant(fields, message);
  } else if (message.role == tool) {
    fields.read("tool_call_id", message.tool_call_id);
    if (message.tool_call_id.empty() && message.name.empty())
      fields.wrong("tool_call_id", "is missing");
  } else if (!fields.has("content")) {
    fields.wrong("content", "is missing");
  }
  return message;
}

}  // namespace

std::vector<ChatMessage> parse_messages(const Json& messages, Problem& problem) {
  std::vector<ChatMessage> parsed;
  for (size_t i = 0; i < messages.size() && !problem; ++i) {
    const std::string name = strf("messages[%zu]", i);
    if (messages[i].is_object())
      parsed.push_back(parse_message(Fields(messages[i], name + ".", problem)));
    else
      problem.add(
          {.message = name + ": " + kind_of(messages[i]) + ", wanted an object", .param = name});
  }
  return parsed;
}

}  // namespace rose
