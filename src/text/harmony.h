// Harmony, the chat format of gpt-oss: what a conversation is, and how it becomes tokens.
//
//   <|start|>ROLE[:NAME][ to=RECIPIENT][<|channel|>CHANNEL][ CONTENT_TYPE]<|message|>CONTENT<|end|>
//
// Each piece of text is encoded by itself with special tokens off: tokens never merge across pieces,
// and nothing a user writes becomes a special token.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace rose::harmony {

enum class Role { system, developer, user, assistant, tool };
std::string_view role_name(Role role);
std::optional<Role> role_named(std::string_view name);

inline constexpr std::string_view kChannelMarker = "<|channel|>";
inline constexpr std::string_view kConstrainMarker = "<|constrain|>";
inline constexpr std::string_view kTo = "to=";                // before a recipient
inline constexpr std::string_view kFunctions = "functions.";  // before a recipient that is a tool

// The special tokens that give a message its shape. Ids differ between vocabularies, names do not.
struct Specials {
  int start, end, message, channel, constrain, return_, call;
  std::optional<int> end_of_text;
};
Result<Specials> find_specials(const Tokenizer& tokenizer);

struct Header {
  Role role = Role::user;
  std::optional<std::string> name = {}, recipient = {}, channel = {}, content_type = {};
};

struct Namespace {
  std::string name;
  std::optional<std::string> description;
  std::vector<Tool> tools;
};
using Namespaces = std::map<std::string, Namespace>;  // rendered in byte order of the keys

struct ChannelConfig {
  std::vector<std::string> valid_channels;
  bool channel_required = false;
};

// What is unset is not rendered.
struct SystemContent {
  std::optional<std::string> model_identity, knowledge_cutoff, conversation_start_date;
  std::optional<ReasoningEffort> reasoning_effort;
  Namespaces tools;
  std::optional<ChannelConfig> channel_config;
};

// What an answer must look like, as the model is told.
struct ResponseFormat {
  std::string name, description;  // the latter may be empty
  std::string schema;             // compact JSON
};

struct DeveloperContent {
  std::optional<std::string> instructions;
  Namespaces tools;
  std::optional<ResponseFormat> response_format;
};

using Content = std::variant<std::string, SystemContent, DeveloperContent>;

struct Message {
  Header header;
  std::vector<Content> contents;  // follow each other without a separator
};

struct Conversation {
  std::vector<Message> messages;
};

// How a JSON schema is written as a TypeScript type: exactly as the reference does, or also with
// what the reference calls `any` (anyOf, $ref, const, enums of numbers).
enum class SchemaStyle { reference, full };

struct RenderOptions {
  enum class Op {
    render,      // the messages
    completion,  // and the head of the message that `next_role` is to write
    training,    // a last final answer ends in <|return|>
  };
  Op op = Op::render;
  Role next_role = Role::assistant;
  // Once the last assistant message is a final answer, leave out the analysis before the first one.
  bool auto_drop_analysis = false;
  SchemaStyle schemas = SchemaStyle::reference;
};

Result<std::vector<int>> render(const Tokenizer& tokenizer, const Specials& specials,
                                const Conversation& conversation, const RenderOptions& options);

}  // namespace rose::harmony
