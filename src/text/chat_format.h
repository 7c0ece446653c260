// A chat format turns a conversation into token ids and a stream of token ids into events. The API
// layer speaks in these neutral terms; Harmony is one row of the table, found by name.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "text/grammar/output.h"
#include "text/tokenizer.h"

namespace rose {

struct ToolCall {
  std::string id;         // "call_…", as the API shows it
  std::string name;       // without a namespace
  std::string arguments;  // JSON text, verbatim
};

// A message as API clients write it, whatever the format calls its parts.
struct ChatMessage {
  enum class Role { system, developer, user, assistant, tool };
  Role role = Role::user;
  std::string content;
  std::string reasoning;             // assistant: what it thought before it spoke
  std::vector<ToolCall> tool_calls;  // assistant
  std::string tool_call_id;          // tool: which call this answers
  std::string name;                  // tool: its name where the id is not known; user: who speaks
};

struct Tool {
  std::string name;
  std::string description;                 // may be empty
  std::shared_ptr<const Json> parameters;  // JSON Schema, key order kept; null: takes nothing
};

enum class ReasoningEffort { low, medium, high };

// All that becomes the prompt.
struct ChatPrompt {
  std::vector<ChatMessage> messages;
  std::vector<Tool> tools;
  ReasoningEffort effort = ReasoningEffort::medium;
  std::string current_date;    // "2026-01-31"; empty: not mentioned
  std::string model_identity;  // empty: the format's default
  OutputFormat output;         // a schema is shown to the model; what holds it to that is TurnRules
  // The last message, an answer of the assistant's, has not ended: the model goes on with its text.
  bool continues = false;
};

// What the turn must be: an answer of this form, or a call of one of these tools.
struct TurnRules {
  // Of reasoning: as much as it likes; none; what was begun (the turn goes on inside of it) ends now,
  // and none follows.
  enum class Thinking { free, none, ends };
  struct Call {
    std::string name;
    std::shared_ptr<const Json> parameters;  // its arguments' schema; null: any object
  };
  Thinking thinking = Thinking::free;
  bool may_answer = true;
  OutputFormat content = {};
  std::vector<Call> calls = {};
};

// What the model is saying, as soon as it is certain. Joining the texts of a kind (and index) over a
// stream gives the whole field, however the tokens were cut into chunks.
inline constexpr std::string_view kMessageJoint =
    "\n\n";  // before a kind's second, third … message
struct ChatEvent {
  enum class Kind {
    reasoning,       // text: what it thinks
    content,         // text: what the user sees
    tool_call,       // text: the name of the tool; a new call begins
    tool_arguments,  // text: more of the arguments of the newest call
  };
  Kind kind;
  std::string text;
  int tool_index = 0;  // of tool_call and tool_arguments: 0, 1, … in order of appearance
};

// Token ids to events, one sequence at a time. No token sequence is an error.
class StreamParser {
 public:
  virtual ~StreamParser() = default;
  virtual void push(int token, std::vector<ChatEvent>& events) = 0;
  // The sequence has ended, whatever was pending: held-back text comes out.
  virtual void finish(std::vector<ChatEvent>& events) = 0;
  // Tokens so far that belong to reasoning (headers counted with what they introduce).
  virtual int reasoning_tokens() const = 0;
  // The next token goes on with reasoning or ends it.
  virtual bool in_reasoning() const = 0;
};

class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  // The prompt up to where the model is to speak. Fails only for what the request got wrong
  // (a tool result that answers no call, say), in words for the client.
  virtual Result<std::vector<int>> render(const ChatPrompt& prompt) const = 0;
  // `tools`: the names the request listed; a bare recipient is a call only if it is among them.
  virtual std::unique_ptr<StreamParser> parser(std::span<const Tool> tools) const = 0;
  // What the turn begins with, before the text, where it goes on with an answer.
  virtual std::vector<int> answer_head() const { return {}; }
  // All turns under these rules, from where the prompt ends, as a grammar over the tokens.
  virtual Result<grammar::Expr> turn(grammar::Grammar& grammar, const TurnRules& rules) const = 0;
  // Tokens that end the assistant's turn.
  virtual std::vector<int> stop_tokens() const = 0;
};

// The format named ("harmony", …) over this tokenizer, which must outlive it; "auto": the first of
// the table whose special tokens the tokenizer has.
Result<std::unique_ptr<ChatFormat>> make_chat_format(std::string_view name,
                                                     const Tokenizer& tokenizer);

}  // namespace rose
