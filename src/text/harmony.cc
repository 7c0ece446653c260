#include "text/harmony.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "text/harmony_tools.h"

namespace rose::harmony {
namespace {

constexpr std::string_view kRoleNames[] = {"system", "developer", "user", "assistant", "tool"};

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::string_view effort_name(ReasoningEffort effort) {
  switch (effort) {
    case ReasoningEffort::low: return "low";
    case ReasoningEffort::medium: return "medium";
    case ReasoningEffort::high: return "high";
  }
  return "";
}

// Only a developer message can declare functions; the system message then names their channel.
bool has_functions(const Conversation& conversation) {
  for (const Message& message : conversation.messages)
    for (const Content& content : message.contents)
      if (const auto* developer = std::get_if<DeveloperContent>(&content))
        if (const auto it = developer->tools.find("functions");
            it != developer->tools.end() && !it->second.tools.empty())
          return true;
  return false;
}

std::string system_text(const SystemContent& system, bool functions, SchemaStyle schemas) {
  std::vector<std::string> sections, top;
  if (system.model_identity) top.push_back(*system.model_identity);
  if (system.knowledge_cutoff) top.push_back("Knowledge cutoff: " + *system.knowledge_cutoff);
  if (system.conversation_start_date)
    top.push_back("Current date: " + *system.conversation_start_date);
  if (!top.empty()) sections.push_back(join(top, "\n"));

  if (system.reasoning_effort)
    sections.push_back("Reasoning: " + std::string(effort_name(*system.reasoning_effort)));
  if (!system.tools.empty()) sections.push_back(tools_section(system.tools, schemas));

  if (system.channel_config && !system.channel_config->valid_channels.empty()) {
    std::string channels =
        "# Valid channels: " + join(system.channel_config->valid_channels, ", ") + ".";
    if (system.channel_config->channel_required)
      channels += " Channel must be included for every message.";
    if (functions)
      channels += "\nCalls to these tools must go to the commentary channel: 'functions'.";
    sections.push_back(std::move(channels));
  }
  return join(sections, "\n\n");
}

std::string developer_text(const DeveloperContent& developer, SchemaStyle schemas) {
  std::vector<std::string> sections;
  if (developer.instructions) {
    sections.push_back("# Instructions");
    sections.push_back(*developer.instructions);
  }
  if (!developer.tools.empty()) sections.push_back(tools_section(developer.tools, schemas));
  if (const auto& format = developer.response_format) {
    sections.push_back("# Response Formats");
    sections.push_back("## " + format->name);
    const std::string about = format->description.empty() ? "" : "// " + format->description + "\n";
    sections.push_back(about + format->schema);
  }
  return join(sections, "\n\n");
}

class Renderer {
 public:
  Renderer(const Tokenizer& tokenizer, const Specials& specials, SchemaStyle schemas,
           bool functions)
      : tokenizer_(tokenizer), specials_(specials), schemas_(schemas), functions_(functions) {}

  Status message(const Message& message) {
    special(specials_.start);
    TRY(head(message.header));
    special(specials_.message);
    for (const Content& content : message.contents) TRY(body(message.header.role, content));
    const bool to_tool = message.header.role == Role::assistant && message.header.recipient;
    special(to_tool ? specials_.call : specials_.end);
    return Done{};
  }

  void start_of(Role role) {
    special(specials_.start);
    text(role_name(role));
  }

  std::vector<int> tokens;

 private:
  void special(int id) { tokens.push_back(id); }

  void text(std::string_view piece) {
    const std::vector<int> ids = tokenizer_.encode(piece);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  }

  Status head(const Header& header) {
    if (header.role == Role::tool) {
      if (!header.name) return fail(ErrorKind::invalid, "Tools should have a name!");
      text(*header.name);
    } else {
      text(role_name(header.role));
      if (header.name) text(":" + *header.name);
    }
    if (header.recipient && *header.recipient != "all") text(" to=" + *header.recipient);
    if (header.channel) {
      special(specials_.channel);
      text(*header.channel);
    }
    if (header.content_type) content_type(*header.content_type);
    return Done{};
  }

  // The marker is the one special token that a field may spell; written as plain characters it
  // would teach the model to write it so.
  void content_type(std::string_view type) {
    if (!type.starts_with(kConstrainMarker)) return text(" " + std::string(type));
    text(" ");
    special(specials_.constrain);
    if (type.size() > kConstrainMarker.size()) text(type.substr(kConstrainMarker.size()));
  }

  Status body(Role role, const Content& content) {
    if (const auto* plain = std::get_if<std::string>(&content)) {
      text(*plain);
    } else if (const auto* system = std::get_if<SystemContent>(&content)) {
      if (role != Role::system) return misplaced("SystemContent", "system", role);
      text(system_text(*system, functions_, schemas_));
    } else {
      if (role != Role::developer) return misplaced("DeveloperContent", "developer", role);
      text(developer_text(std::get<DeveloperContent>(content), schemas_));
    }
    return Done{};
  }

  static Status misplaced(const char* what, const char* wanted, Role role) {
    std::string found(role_name(role));
    found[0] = char(found[0] - 'a' + 'A');  // the reference prints the name of its enumerator
    return fail(ErrorKind::invalid, strf("%s may only appear in %s messages, found in %s", what,
                                         wanted, found.c_str()));
  }

  const Tokenizer& tokenizer_;
  const Specials& specials_;
  const SchemaStyle schemas_;
  const bool functions_;
};

bool is_final(const Message& message) { return message.header.channel == "final"; }
bool is_assistant(const Message& message) { return message.header.role == Role::assistant; }

// How many messages at the start lose their analysis.
size_t drop_before(const std::vector<Message>& messages, bool auto_drop_analysis) {
  if (!auto_drop_analysis) return 0;
  const auto last = std::find_if(messages.rbegin(), messages.rend(), is_assistant);
  if (last == messages.rend() || !is_final(*last)) return 0;
  return size_t(std::find_if(messages.begin(), messages.end(), is_final) - messages.begin());
}

}  // namespace

std::string_view role_name(Role role) { return kRoleNames[int(role)]; }

std::optional<Role> role_named(std::string_view name) {
  for (size_t i = 0; i < std::size(kRoleNames); ++i)
    if (kRoleNames[i] == name) return Role(i);
  return std::nullopt;
}

Result<Specials> find_specials(const Tokenizer& tokenizer) {
  Specials found;
  const struct {
    std::string_view name;
    int* id;
  } wanted[] = {
      {"<|start|>", &found.start},
      {"<|end|>", &found.end},
      {"<|message|>", &found.message},
      {kChannelMarker, &found.channel},
      {kConstrainMarker, &found.constrain},
      {"<|return|>", &found.return_},
      {"<|call|>", &found.call},
  };
  std::string missing;
  for (const auto& [name, id] : wanted) {
    const std::optional<int> special = tokenizer.special(name);
    if (special)
      *id = *special;
    else
      missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  if (!missing.empty())
    return fail(
        ErrorKind::unsupported,
        "the chat format harmony needs special tokens that the vocabulary lacks: " + missing);
  found.end_of_text = tokenizer.special("<|endoftext|>");
  return found;
}

Result<std::vector<int>> render(const Tokenizer& tokenizer, const Specials& specials,
                                const Conversation& conversation, const RenderOptions& options) {
  using Op = RenderOptions::Op;
  const std::vector<Message>& messages = conversation.messages;
  const size_t drop = drop_before(messages, options.auto_drop_analysis);

  Renderer renderer(tokenizer, specials, options.schemas, has_functions(conversation));
  for (size_t i = 0; i < messages.size(); ++i)
    if (i >= drop || messages[i].header.channel != "analysis") TRY(renderer.message(messages[i]));

  if (options.op == Op::completion) renderer.start_of(options.next_role);
  if (options.op == Op::training && !messages.empty() && is_assistant(messages.back()) &&
      is_final(messages.back()))
    renderer.tokens.back() = specials.return_;
  return std::move(renderer.tokens);
}

}  // namespace rose::harmony
