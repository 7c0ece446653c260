#include "cli/chat_state.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "text/utf8.h"

namespace rose {

namespace {

constexpr const char* kEfforts[] = {"low", "medium", "high"};
constexpr const char* kRoles[] = {"system", "developer", "user", "assistant", "tool"};
constexpr size_t kMaxFileBytes = 1 << 20;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &local);
  return text;
}

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

ChatPrompt ChatState::prompt() const {
  ChatPrompt prompt;
  prompt.effort = effort;
  prompt.current_date = today();
  if (!system.empty())
    prompt.messages.push_back({.role = ChatMessage::Role::developer, .content = system});
  prompt.messages.insert(prompt.messages.end(), messages.begin(), messages.end());
  return prompt;
}

Result<ReasoningEffort> parse_effort(const std::string& text) {
  for (int i = 0; i < 3; ++i)
    if (text == kEfforts[i]) return ReasoningEffort(i);
  return fail(ErrorKind::usage, "reasoning effort '" + text + "', wanted low, medium or high");
}

const char* effort_name(ReasoningEffort effort) { return kEfforts[int(effort)]; }

Json chat_to_json(const ChatState& state) {
  Json json = {
      {"system", state.system}, {"effort", effort_name(state.effort)}, {"messages", Json::array()}};
  for (const ChatMessage& message : state.messages) {
    Json one = {{"role", kRoles[int(message.role)]}, {"content", message.content}};
    if (!message.reasoning.empty()) one["reasoning"] = message.reasoning;
    json["messages"].push_back(std::move(one));
  }
  return json;
}

Status chat_from_json(const Json& json, ChatState& state) {
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array())
    return fail(ErrorKind::corrupt, "no saved chat: wanted {\"messages\": […]}");
  std::vector<ChatMessage> messages;
  for (const Json& one : json["messages"]) {
    const std::string role = one.is_object() ? text_of(one, "role") : "";
    if (role != "user" && role != "assistant")
      return fail(ErrorKind::corrupt, strf("message %zu has role '%s', wanted user or assistant",
                                           messages.size(), role.c_str()));
    messages.push_back(
        {.role = role == "user" ? ChatMessage::Role::user : ChatMessage::Role::assistant,
         .content = text_of(one, "content"),
         .reasoning = text_of(one, "reasoning")});
  }
  const std::string effort = text_of(json, "effort");
  state.effort = effort.empty() ? ReasoningEffort::medium : TRY(parse_effort(effort));
  state.system = text_of(json, "system");
  state.messages = std::move(messages);
  return Done{};
}

Result<std::string> file_block(const std::string& path) {
  const std::string text = TRY(read_file(path));
  if (text.size() > kMaxFileBytes)
    return fail(ErrorKind::invalid, strf("%s has %zu bytes, wanted at most %zu", path.c_str(),
                                         text.size(), kMaxFileBytes));
  if (valid_utf8_prefix(text) != text.size() || text.find('\0') != text.npos)
    return fail(ErrorKind::invalid, path + " is no text");
  // A fence that the text does not have.
  std::string fence = "```";
  while (text.find(fence) != text.npos) fence += '`';
  return "\n\n" + path + ":\n" + fence + "\n" + text + (text.ends_with('\n') ? "" : "\n") + fence;
}

Result<std::string> with_files(const std::string& message) {
  std::string out, files;
  for (size_t at = 0; at < message.size();) {
    const bool word = at == 0 || std::isspace(uint8_t(message[at - 1]));
    size_t end = at + 1;
    if (word && message[at] == '@') {
      while (end < message.size() && !std::isspace(uint8_t(message[end]))) ++end;
      std::string path = message.substr(at + 1, end - at - 1);
      std::error_code error;
      // "see @notes.txt." ends a sentence.
      while (!path.empty() && !std::filesystem::is_regular_file(path, error) &&
             std::string_view(".,;:!?)").find(path.back()) != std::string_view::npos)
        path.pop_back();
      if (!path.empty() && std::filesystem::is_regular_file(path, error)) {
        files += TRY(file_block(path));
        out += path;
        at += 1 + path.size();
        continue;
      }
    }
    out += message.substr(at, end - at);
    at = end;
  }
  return out + files;
}

}  // namespace rose
