#include "api/messages_request.h"

#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

using MessageRole = ChatMessage::Role;

// clang-format off
constexpr KnownField kMessages[] = {
    {"messages", Use::works}, {"system", Use::works}, {"stop_sequences", Use::works}, {"tools", Use::works}, {"tool_choice", Use::works},
    {"output_config", Use::works}, {"output_format", Use::works},
    {"betas", Use::nothing}, {"anthropic_version", Use::nothing}, {"context_management", Use::nothing}, {"cache_control", Use::nothing},
    {"container", Use::refused}, {"mcp_servers", Use::refused, "[]"}, {"n", Use::refused, "1"},
};
// clang-format on

// One block of a message's content; a result of a tool becomes a message of its own.
void read_block(Fields block, ChatMessage& message, std::vector<ChatMessage>& results) {
  const auto join = [](std::string& text, const std::string& more) {
    if (!text.empty() && !more.empty()) text += kMessageJoint;
    text += more;
  };
  std::string type, text;
  block.read("type", type);
  if (type == "text") {
    if (!block.has("text")) block.wrong("text", "is missing");
    block.read("text", text);
    message.content += text;
  } else if (type == "thinking" && message.role == MessageRole::assistant) {
    block.read("thinking", text);
    join(message.reasoning, text);
  } else if (type == "redacted_thinking" && message.role == MessageRole::assistant) {
    // Another server's: nothing of it can be read here.
  } else if (type == "tool_use" && message.role == MessageRole::assistant) {
    ToolCall call;
    block.read("id", call.id);
    block.read("name", call.name);
    if (call.name.empty()) block.wrong("name", "is missing");
    const Json* input = block.find("input");
    call.arguments =
        input ? input->is_string() ? input->get<std::string>() : dump_json(*input) : "{}";
    message.tool_calls.push_back(std::move(call));
  } else if (type == "tool_result" && message.role == MessageRole::user) {
    ChatMessage result{.role = MessageRole::tool};
    block.read("tool_use_id", result.tool_call_id);
    if (result.tool_call_id.empty()) block.wrong("tool_use_id", "is missing");
    result.content = read_text(block, "content");
    results.push_back(std::move(result));
  } else {
    block.wrong("type", "blocks of type '" + type.substr(0, 80) + "' are not supported here");
  }
}

void read_message(Fields fields, std::vector<ChatMessage>& messages) {
  ChatMessage message;
  std::string role;
  fields.read("role", role);
  if (role == "assistant")
    message.role = MessageRole::assistant;
  else if (role == "system")
    message.role = MessageRole::system;
  else if (role != "user")
    return fields.wrong(
        "role", role.empty() ? "is missing"
                             : "'" + role.substr(0, 80) + "' is unknown, wanted user or assistant");
  const Json* content = fields.find("content");
  if (!content) return fields.wrong("content", "is missing");
  std::vector<ChatMessage> results;
  if (content->is_string()) {
    message.content = content->get<std::string>();
  } else if (content->is_array()) {
    for (size_t i = 0; i < content->size(); ++i) {
      const std::string name = strf("content[%zu]", i);
      if (!(*content)[i].is_object())
        return fields.wrong(name, kind_of((*content)[i]) + ", wanted a content block");
      read_block(Fields((*content)[i], fields.path() + name + ".", fields.problem()), message,
                 results);
    }
  } else {
    return fields.wrong("content", kind_of(*content) + ", wanted a string or an array of blocks");
  }
  // Results answer the calls before them: they come first.
  const bool only_results = !results.empty() && message.content.empty();
  for (ChatMessage& result : results) messages.push_back(std::move(result));
  if (!only_results) messages.push_back(std::move(message));
}

void read_messages(Fields& fields, TurnRequest& into) {
  const std::string system = read_text(fields, "system");
  if (!system.empty())
    into.prompt.messages.push_back({.role = MessageRole::system, .content = system});
  const Json* messages = fields.array("messages");
  if (!messages || messages->empty()) return fields.wrong("messages", "is missing or empty");
  for (size_t i = 0; i < messages->size() && !fields.problem(); ++i) {
    const std::string name = strf("messages[%zu]", i);
    if (!(*messages)[i].is_object())
      return fields.wrong(name, kind_of((*messages)[i]) + ", wanted an object");
    read_message(Fields((*messages)[i], name + ".", fields.problem()), into.prompt.messages);
  }
}

void read_messages_tools(Fields& fields, TurnRequest& into) {
  const Json* tools = fields.array("tools");
  for (size_t i = 0; tools && i < tools->size() && !fields.problem(); ++i) {
    const std::string name = strf("tools[%zu]", i);
    if (!(*tools)[i].is_object())
      return fields.wrong(name, kind_of((*tools)[i]) + ", wanted a tool");
    Fields inner((*tools)[i], name + ".", fields.problem());
    std::string type = "custom";
    inner.read("type", type);
    if (type != "custom")
      return inner.wrong(
          "type", "unsupported tool type '" + type.substr(0, 80) + "', only 'custom' is possible");
    Tool tool;
    bool strict = false;
    inner.read("name", tool.name);
    inner.read("description", tool.description);
    inner.read("strict", strict);
    if (const Json* schema = inner.object("input_schema"))
      tool.parameters = std::make_shared<const Json>(*schema);
    add_tool(inner, std::move(tool), strict, into);
  }
}

void read_messages_choice(Fields& fields, TurnRequest& into) {
  const Json* choice = fields.object("tool_choice");
  if (!choice) return;
  Fields inner(*choice, "tool_choice.", fields.problem());
  std::string type = "auto", name;
  inner.read("type", type);
  inner.read("disable_parallel_tool_use", into.one_call);
  using Choice = TurnRequest::ToolChoice;
  if (type == "none") {
    into.tool_choice = Choice::none;
    into.prompt.tools.clear();
  } else if (type == "any" || type == "tool") {
    into.tool_choice = Choice::required;
    if (into.prompt.tools.empty()) return fields.wrong("tool_choice", "needs tools");
    if (type == "any") return;
    inner.read("name", name);
    into.callable = {name};
    for (const Tool& tool : into.prompt.tools)
      if (tool.name == name) return;
    inner.wrong("name", "'" + name.substr(0, 80) + "' is none of the tools");
  } else if (type != "auto") {
    inner.wrong("type", "'" + type.substr(0, 80) + "', wanted auto, any, tool or none");
  }
}

void read_messages_output(Fields& fields, TurnRequest& into) {
  if (const Json* format = fields.object("output_format")) {
    Fields inner(*format, "output_format.", fields.problem());
    read_text_format(inner, into.output);
  }
  if (const Json* config = fields.object("output_config")) {
    Fields inner(*config, "output_config.", fields.problem());
    read_effort(inner, "effort", into);
    if (const Json* format = inner.object("format")) {
      Fields form(*format, "output_config.format.", fields.problem());
      read_text_format(form, into.output);
    }
  }
}

}  // namespace

KnownFields messages_fields() { return kMessages; }

TurnRequest parse_messages_request(const Json& body, int vocab, Problem& problem) {
  TurnRequest request;
  Fields fields(body, "", problem);
  check_names(body, {messages_fields(), generate_fields(), reasoning_fields()}, fields,
              request.ignored);
  fields.read("model", request.model);
  fields.read("stream", request.stream);
  read_messages(fields, request);
  read_messages_tools(fields, request);
  read_messages_choice(fields, request);
  read_reasoning_fields(fields, request);
  read_messages_output(fields, request);
  request.prompt.output = request.output.format;
  read_generate_fields(fields, vocab, request.generate);
  read_stops(fields, "stop_sequences", request.generate.stop);
  const std::vector<ChatMessage>& sent = request.prompt.messages;
  if (!sent.empty() && sent.back().role == MessageRole::assistant && !sent.back().content.empty())
    continue_last_message(fields, "messages", request);
  return request;
}

}  // namespace rose
