// Items of the Responses API as messages of a conversation, in every shape that clients send them back.
#include "api/response_items.h"
#include "api/responses_request.h"
#include "base/check.h"

namespace rose {

namespace {

using MessageRole = ChatMessage::Role;

void join(std::string& text, const std::string& more) {
  if (!text.empty() && !more.empty()) text += kMessageJoint;
  text += more;
}

void message(Fields& item, std::vector<ChatMessage>& messages) {
  std::string role;
  item.read("role", role);
  ChatMessage message;
  message.content = read_text(item, "content");
  if (role == "user")
    message.role = MessageRole::user;
  else if (role == "assistant")
    message.role = MessageRole::assistant;
  else if (role == "system")
    message.role = MessageRole::system;
  else if (role == "developer")
    message.role = MessageRole::developer;
  else
    return item.wrong("role", role.empty() ? "is missing"
                                           : "'" + role.substr(0, 80) +
                                                 "' is unknown, wanted user, assistant, system or "
                                                 "developer");
  // The thought before an answer belongs to it.
  ChatMessage* last = messages.empty() ? nullptr : &messages.back();
  if (message.role == MessageRole::assistant && last && last->role == MessageRole::assistant &&
      last->content.empty() && last->tool_calls.empty())
    last->content = std::move(message.content);
  else
    messages.push_back(std::move(message));
}

void reasoning(Fields& item, std::vector<ChatMessage>& messages) {
  std::string text = read_text(item, "content"), sealed;
  item.read("encrypted_content", sealed);
  if (text.empty()) text = unseal_reasoning(sealed);
  if (text.empty()) text = read_text(item, "summary");
  if (text.empty()) return;
  ChatMessage* last = messages.empty() ? nullptr : &messages.back();
  if (last && last->role == MessageRole::assistant && last->content.empty() &&
      last->tool_calls.empty())
    return join(last->reasoning, text);
  messages.push_back({.role = MessageRole::assistant, .reasoning = std::move(text)});
}

void add_call(ToolCall call, std::vector<ChatMessage>& messages) {
  // What the assistant thought and said just before is of the same turn: words before a call are no answer.
  ChatMessage turn{.role = MessageRole::assistant};
  while (!messages.empty() && messages.back().role == MessageRole::assistant &&
         messages.back().tool_calls.empty()) {
    join(messages.back().reasoning, turn.reasoning);
    join(messages.back().content, turn.content);
    turn = std::move(messages.back());
    messages.pop_back();
  }
  if (turn.reasoning.empty() && turn.content.empty() && !messages.empty() &&
      messages.back().role == MessageRole::assistant) {
    messages.back().tool_calls.push_back(std::move(call));
    return;
  }
  turn.tool_calls.push_back(std::move(call));
  messages.push_back(std::move(turn));
}

ToolCall read_call(Fields& item) {
  ToolCall call;
  item.read("call_id", call.id);
  item.read("name", call.name);
  if (call.name.empty()) item.wrong("name", "is missing");
  if (call.id.empty()) item.read("id", call.id);
  return call;
}

void function_call(Fields& item, std::vector<ChatMessage>& messages) {
  ToolCall call = read_call(item);
  const Json* arguments = item.find("arguments");
  if (arguments && arguments->is_object())
    call.arguments = dump_json(*arguments);
  else
    item.read("arguments", call.arguments);
  add_call(std::move(call), messages);
}

void custom_call(Fields& item, std::vector<ChatMessage>& messages) {
  ToolCall call = read_call(item);
  std::string input;
  item.read("input", input);
  call.arguments = wrap_custom_input(input);
  add_call(std::move(call), messages);
}

void function_output(Fields& item, std::vector<ChatMessage>& messages) {
  ChatMessage message{.role = MessageRole::tool};
  item.read("call_id", message.tool_call_id);
  if (message.tool_call_id.empty()) item.wrong("call_id", "is missing");
  const Json* output = item.find("output");
  if (output && output->is_object())
    message.content = dump_json(*output);
  else
    message.content = read_text(item, "output");
  messages.push_back(std::move(message));
}

struct ItemType {
  const char* name;
  void (*read)(Fields& item, std::vector<ChatMessage>& messages);
};
constexpr ItemType kItems[] = {
    {"message", message},
    {"reasoning", reasoning},
    {"function_call", function_call},
    {"function_call_output", function_output},
    {"custom_tool_call", custom_call},
    {"custom_tool_call_output", function_output},
};

}  // namespace

void append_items(const Json& items, const std::string& path, Problem& problem,
                  std::vector<ChatMessage>& messages) {
  for (size_t i = 0; i < items.size() && !problem; ++i) {
    const std::string name = strf("%s[%zu]", path.c_str(), i);
    if (!items[i].is_object())
      return problem.add(
          {.message = name + ": " + kind_of(items[i]) + ", wanted an item", .param = name});
    Fields item(items[i], name + ".", problem);
    std::string type = "message";
    item.read("type", type);
    const ItemType* known = nullptr;
    for (const ItemType& row : kItems)
      if (type == row.name) known = &row;
    if (!known)
      return item.wrong("type", "items of type '" + type.substr(0, 80) + "' are not supported");
    known->read(item, messages);
  }
}

}  // namespace rose
