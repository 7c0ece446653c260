#include "text/chatml_format.h"

#include <algorithm>

#include "base/check.h"
#include "base/json.h"
#include "text/chatml_stream.h"
#include "text/grammar/json_schema.h"
#include "text/plain_format.h"

namespace rose {

namespace {

using grammar::Expr;

constexpr const char* kToolsIntroduction =
    "# Tools\n\nYou may call these functions. Each is described by a JSON object on a line of its "
    "own:"
    "\n<tools>";
constexpr const char* kToolsHowTo =
    "\n</tools>\n\nTo call one, write its name and arguments as a JSON object between tags:\n"
    "<tool_call>\n{\"name\": \"the name\", \"arguments\": {}}\n</tool_call>";

class ChatmlFormat final : public ChatFormat {
 public:
  ChatmlFormat(const Tokenizer& tokenizer, int start, int end)
      : tokenizer_(tokenizer), start_(start), end_(end) {}

  Result<std::vector<int>> render(const ChatPrompt& prompt) const override {
    std::vector<int> tokens;
    const std::vector<ChatMessage>& messages = prompt.messages;
    const bool opens = !messages.empty() && instructs(messages.front());
    const std::string system = system_text(prompt, opens ? messages.front().content : "");
    if (!system.empty()) message("system", system, tokens);
    // Reasoning serves the turn it belongs to: once answered, it is dropped.
    const auto user = std::find_if(messages.rbegin(), messages.rend(), [](const ChatMessage& m) {
      return m.role == ChatMessage::Role::user;
    });
    const size_t reasoning_from = size_t(messages.rend() - user);
    for (size_t i = opens; i < messages.size(); ++i)
      message(role_of(messages[i]), text_of(messages[i], i >= reasoning_from), tokens);
    if (prompt.continues) {
      tokens.resize(tokens.size() - end_of_message().size());
      return tokens;
    }
    tokens.push_back(start_);
    append("assistant\n", tokens);
    return tokens;
  }

  std::unique_ptr<StreamParser> parser(std::span<const Tool>) const override {
    return std::make_unique<ChatmlStream>(tokenizer_);
  }

  Result<Expr> turn(grammar::Grammar& g, const TurnRules& rules) const override {
    std::vector<Expr> ways;
    if (rules.may_answer) ways.push_back(TRY(output_expr(g, rules.content)));
    for (const TurnRules::Call& call : rules.calls) {
      Expr arguments = grammar::json_object(g);
      if (call.parameters)
        arguments = TRY(within(grammar::json_schema(g, *call.parameters),
                               "the parameters of tool '" + call.name + "'"));
      ways.push_back(
          g.sequence({tag(g, "<tool_call>"),
                      g.literal("\n{\"name\": " + dump_json(call.name) + ", \"arguments\": "),
                      arguments, g.literal("}\n"), tag(g, "</tool_call>")}));
    }
    std::vector<Expr> turn;
    const Expr thought = g.sequence({tag(g, "</think>"), g.literal("\n\n")});
    if (rules.thinking == TurnRules::Thinking::ends) {
      turn.push_back(thought);
    } else if (rules.thinking == TurnRules::Thinking::free) {
      grammar::ByteSet
          no_tag;  // a thought that is held to rules has no '<', which would begin its end
      no_tag.set();
      no_tag.reset('<');
      turn.push_back(g.optional(g.sequence({tag(g, "<think>"), g.star(g.bytes(no_tag)), thought})));
    }
    turn.push_back(g.any_of(std::move(ways)));
    turn.push_back(g.special(end_));
    return g.sequence(std::move(turn));
  }

  std::vector<int> stop_tokens() const override {
    std::vector<int> tokens = {end_};
    for (const int token : end_tokens(tokenizer_))
      if (token != end_) tokens.push_back(token);
    return tokens;
  }

 private:
  static bool instructs(const ChatMessage& message) {
    return message.role == ChatMessage::Role::system ||
           message.role == ChatMessage::Role::developer;
  }
  static std::string_view role_of(const ChatMessage& message) {
    switch (message.role) {
      case ChatMessage::Role::assistant: return "assistant";
      case ChatMessage::Role::user:
      case ChatMessage::Role::tool: return "user";
      default: return "system";
    }
  }

  static std::string system_text(const ChatPrompt& prompt, std::string text) {
    const auto section = [&](const std::string& more) {
      if (!text.empty()) text += "\n\n";
      text += more;
    };
    if (prompt.output.kind == OutputFormat::Kind::json_schema)
      section("Answer with a JSON document that is valid under this schema:\n" +
              dump_json(*prompt.output.schema));
    if (!prompt.tools.empty()) {
      std::string tools = kToolsIntroduction;
      for (const Tool& tool : prompt.tools)
        tools +=
            "\n" +
            dump_json({{"type", "function"},
                       {"function",
                        {{"name", tool.name},
                         {"description", tool.description},
                         {"parameters", tool.parameters ? *tool.parameters : Json::object()}}}});
      section(tools + kToolsHowTo);
    }
    return text;
  }

  static std::string text_of(const ChatMessage& message, bool with_reasoning) {
    if (message.role == ChatMessage::Role::tool)
      return "<tool_response>\n" + message.content + "\n</tool_response>";
    if (message.role != ChatMessage::Role::assistant) return message.content;
    std::string text;
    if (with_reasoning && !message.reasoning.empty())
      text = "<think>\n" + message.reasoning + "\n</think>\n\n";
    text += message.content;
    for (const ToolCall& call : message.tool_calls) {
      if (!text.empty() && !text.ends_with('\n')) text += '\n';
      text += "<tool_call>\n{\"name\": " + dump_json(call.name) +
              ", \"arguments\": " + (call.arguments.empty() ? "{}" : call.arguments) +
              "}\n</tool_call>";
    }
    return text;
  }

  // What clients write never becomes one of the two special tokens.
  void append(std::string_view text, std::vector<int>& tokens) const {
    const std::vector<int> more = tokenizer_.encode(text);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  void message(std::string_view role, const std::string& text, std::vector<int>& tokens) const {
    tokens.push_back(start_);
    append(std::string(role) + "\n" + text, tokens);
    for (const int token : end_of_message()) tokens.push_back(token);
  }
  std::vector<int> end_of_message() const {
    std::vector<int> tokens = {end_};
    append("\n", tokens);
    return tokens;
  }

  // Some vocabularies have tags as tokens of their own.
  Expr tag(grammar::Grammar& g, const char* name) const {
    const std::optional<int> token = tokenizer_.special(name);
    return token ? g.special(*token) : g.literal(name);
  }

  const Tokenizer& tokenizer_;
  const int start_, end_;
};

}  // namespace

Result<std::unique_ptr<ChatFormat>> make_chatml_format(const Tokenizer& tokenizer) {
  const std::optional<int> start = tokenizer.special("<|im_start|>");
  const std::optional<int> end = tokenizer.special("<|im_end|>");
  if (!start || !end)
    return fail(ErrorKind::unsupported,
                "the chat format \"chatml\" needs the special tokens <|im_start|> and <|im_end|>, "
                "which the tokenizer lacks");
  return std::make_unique<ChatmlFormat>(tokenizer, *start, *end);
}

}  // namespace rose
