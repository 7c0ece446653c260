#include "text/harmony_format.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "text/harmony.h"
#include "text/harmony_stream.h"
#include "text/harmony_turn.h"

namespace rose {
namespace harmony {
namespace {

constexpr const char* kIdentity = "You are ChatGPT, a large language model trained by OpenAI.";
constexpr const char* kKnowledgeCutoff = "2024-06";
constexpr const char* kFunctionNamespace = "functions";
constexpr size_t kLongestName = 64;

bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

// A name stands in a header, where spaces and colons mean something. Those of a history are not the
// client's own making, so they are mended rather than refused.
std::string safe_name(std::string name) {
  for (char& c : name)
    if (!in_name(c)) c = '_';
  return name;
}

std::string function(const std::string& name) {
  const std::string prefix(kFunctions);
  return name.starts_with(prefix) ? safe_name(name) : prefix + safe_name(name);
}

Status check_tools(const std::vector<Tool>& tools) {
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string& name = tools[i].name;
    if (name.empty() || name.size() > kLongestName ||
        !std::all_of(name.begin(), name.end(), in_name))
      return fail(ErrorKind::invalid,
                  strf("tools[%zu]: the name is \"%.80s\", wanted 1 to %zu of A-Z a-z 0-9 _ - .", i,
                       name.c_str(), kLongestName));
  }
  return Done{};
}

bool instructs(const ChatMessage& message) {
  return message.role == ChatMessage::Role::system || message.role == ChatMessage::Role::developer;
}

// An answer ends the turn. Reasoning alone is a turn that was cut short.
bool is_answer(const ChatMessage& message) {
  return message.role == ChatMessage::Role::assistant && message.tool_calls.empty() &&
         (!message.content.empty() || message.reasoning.empty());
}

class Builder {
 public:
  explicit Builder(const ChatPrompt& prompt) : prompt_(prompt) {}

  Result<Conversation> build() {
    TRY(check_tools(prompt_.tools));
    const std::vector<ChatMessage>& messages = prompt_.messages;
    const size_t first =
        size_t(std::find_if_not(messages.begin(), messages.end(), instructs) - messages.begin());
    system();
    developer({messages.data(), first});

    // Reasoning serves the turn it belongs to: once answered, it is dropped.
    const auto answer =
        std::find_if(messages.rbegin() + prompt_.continues, messages.rend(), is_answer);
    const size_t reasoning_from = size_t(messages.rend() - answer);
    for (size_t i = first; i < messages.size(); ++i)
      TRY(within(message(i, i >= reasoning_from), strf("messages[%zu]", i)));
    return std::move(conversation_);
  }

 private:
  void add(Header header, Content content) {
    conversation_.messages.push_back({std::move(header), {std::move(content)}});
  }

  void system() {
    SystemContent content;
    content.model_identity = prompt_.model_identity.empty() ? kIdentity : prompt_.model_identity;
    content.knowledge_cutoff = kKnowledgeCutoff;
    if (!prompt_.current_date.empty()) content.conversation_start_date = prompt_.current_date;
    content.reasoning_effort = prompt_.effort;
    content.channel_config = ChannelConfig{{"analysis", "commentary", "final"}, true};
    add({.role = Role::system}, std::move(content));
  }

  // The tools, and the instructions that open the conversation; no message where there are neither.
  void developer(std::span<const ChatMessage> opening) {
    DeveloperContent content;
    for (const ChatMessage& message : opening) {
      if (message.content.empty()) continue;
      if (content.instructions)
        *content.instructions += "\n\n" + message.content;
      else
        content.instructions = message.content;
    }
    if (!prompt_.tools.empty())
      content.tools[kFunctionNamespace] = {kFunctionNamespace, std::nullopt, prompt_.tools};
    if (prompt_.output.kind == OutputFormat::Kind::json_schema) {
      content.response_format = {.name = prompt_.output.name,
                                 .description = prompt_.output.description,
                                 .schema = dump_json(*prompt_.output.schema)};
    }
    if (content.instructions || !content.tools.empty() || content.response_format)
      add({.role = Role::developer}, std::move(content));
  }

  Status message(size_t i, bool with_reasoning) {
    const ChatMessage& message = prompt_.messages[i];
    switch (message.role) {
      case ChatMessage::Role::system:
      case ChatMessage::Role::developer:
        add({.role = Role::developer}, DeveloperContent{message.content, {}, {}});
        return Done{};
      case ChatMessage::Role::user: {
        Header header = {.role = Role::user};
        if (!message.name.empty()) header.name = safe_name(message.name);
        add(std::move(header), message.content);
        return Done{};
      }
      case ChatMessage::Role::assistant: assistant(message, with_reasoning); return Done{};
      case ChatMessage::Role::tool: return tool_result(i);
    }
    return Done{};
  }

  void assistant(const ChatMessage& message, bool with_reasoning) {
    if (with_reasoning && !message.reasoning.empty())
      add({.role = Role::assistant, .channel = "analysis"}, message.reasoning);
    if (is_answer(message))
      return add({.role = Role::assistant, .channel = "final"}, message.content);
    if (!message.content.empty())
      add({.role = Role::assistant, .channel = "commentary"}, message.content);
    for (const ToolCall& call : message.tool_calls)
      add({.role = Role::assistant,
           .recipient = function(call.name),
           .channel = "commentary",
           .content_type = std::string(kConstrainMarker) + "json"},
          call.arguments);
  }

  // Names of tools are not sent with their results: the newest call with this id has it.
  Status tool_result(size_t at) {
    const ChatMessage& message = prompt_.messages[at];
    const std::string* name = message.name.empty() ? nullptr : &message.name;
    for (size_t i = at; i-- > 0 && !message.tool_call_id.empty();) {
      const std::vector<ToolCall>& calls = prompt_.messages[i].tool_calls;
      const auto call = std::find_if(calls.rbegin(), calls.rend(), [&](const ToolCall& call) {
        return call.id == message.tool_call_id;
      });
      if (call == calls.rend()) continue;
      name = &call->name;
      break;
    }
    if (!name)
      return fail(ErrorKind::invalid,
                  message.tool_call_id.empty()
                      ? "a tool result without tool_call_id answers no call"
                      : strf("tool_call_id \"%.80s\" is that of no call before it",
                             message.tool_call_id.c_str()));
    add({.role = Role::tool,
         .name = function(*name),
         .recipient = "assistant",
         .channel = "commentary"},
        message.content);
    return Done{};
  }

  const ChatPrompt& prompt_;
  Conversation conversation_;
};

class Format final : public ChatFormat {
 public:
  Format(const Tokenizer& tokenizer, const Specials& specials)
      : tokenizer_(tokenizer), specials_(specials) {}

  Result<std::vector<int>> render(const ChatPrompt& prompt) const override {
    using Op = RenderOptions::Op;
    const Conversation conversation = TRY(Builder(prompt).build());
    std::vector<int> tokens = TRY(harmony::render(
        tokenizer_, specials_, conversation,
        {.op = prompt.continues ? Op::render : Op::completion, .schemas = SchemaStyle::full}));
    if (prompt.continues) tokens.pop_back();  // <|end|>
    return tokens;
  }

  std::vector<int> answer_head() const override {
    std::vector<int> tokens = {specials_.channel};
    for (const int token : tokenizer_.encode("final")) tokens.push_back(token);
    tokens.push_back(specials_.message);
    return tokens;
  }

  std::unique_ptr<StreamParser> parser(std::span<const Tool> tools) const override {
    return std::make_unique<EventStream>(tokenizer_, specials_, tools);
  }

  Result<grammar::Expr> turn(grammar::Grammar& grammar, const TurnRules& rules) const override {
    return turn_expr(grammar, specials_, rules);
  }

  std::vector<int> stop_tokens() const override {
    std::vector<int> tokens = {specials_.return_, specials_.call};
    if (specials_.end_of_text) tokens.push_back(*specials_.end_of_text);
    return tokens;
  }

 private:
  const Tokenizer& tokenizer_;
  const Specials specials_;
};

}  // namespace
}  // namespace harmony

Result<std::unique_ptr<ChatFormat>> make_harmony_format(const Tokenizer& tokenizer) {
  const harmony::Specials specials = TRY(harmony::find_specials(tokenizer));
  return std::make_unique<harmony::Format>(tokenizer, specials);
}

}  // namespace rose
