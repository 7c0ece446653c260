#include "text/harmony_json.h"

#include <cstdint>
#include <limits>
#include <memory>

#include "base/check.h"
#include "base/json.h"
#include "text/harmony_parser.h"

namespace rose {
namespace harmony {
namespace {

constexpr const char* kRoles = "system, developer, user, assistant or tool";

tl::unexpected<Error> wanted(const Json& found, const std::string& what) {
  const std::string text = found.is_structured() ? found.type_name() : dump_json(found);
  return fail(ErrorKind::invalid, "found " + text.substr(0, 80) + ", wanted " + what);
}

// The member, or null where it is absent or null.
const Json* member(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Result<const Json*> needed(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return fail(ErrorKind::invalid, strf("\"%s\" is missing", key));
  return &*it;
}

Result<std::string> text_of(const Json& json) {
  if (!json.is_string()) return wanted(json, "a string");
  return json.get<std::string>();
}

Result<std::string> text_at(const Json& object, const char* key) {
  return within(text_of(*TRY(needed(object, key))), key);
}

Result<std::optional<std::string>> optional_text(const Json& object, const char* key) {
  const Json* value = member(object, key);
  if (!value) return std::nullopt;
  return TRY(within(text_of(*value), key));
}

Result<bool> flag_of(const Json& json) {
  if (!json.is_boolean()) return wanted(json, "true or false");
  return json.get<bool>();
}

Result<Role> role_of(const Json& json) {
  if (json.is_string())
    if (const auto role = role_named(json.get_ref<const std::string&>())) return *role;
  return wanted(json, kRoles);
}

Result<Tool> tool_of(const Json& json) {
  if (!json.is_object()) return wanted(json, "an object with \"name\" and \"description\"");
  Tool tool;
  tool.name = TRY(text_at(json, "name"));
  tool.description = TRY(text_at(json, "description"));
  if (const Json* parameters = member(json, "parameters"))
    tool.parameters = std::make_shared<const Json>(*parameters);
  return tool;
}

// Each item of the array under `key` through `read`, errors with its place.
template <class T>
Result<std::vector<T>> list_at(const Json& object, const char* key,
                               Result<T> (*read)(const Json&)) {
  const Json& list = *TRY(needed(object, key));
  if (!list.is_array()) return within(Result<std::vector<T>>(wanted(list, "an array")), key);
  std::vector<T> out;
  for (size_t i = 0; i < list.size(); ++i)
    out.push_back(TRY(within(read(list[i]), strf("%s[%zu]", key, i))));
  return out;
}

Result<Namespace> namespace_of(const Json& json) {
  if (!json.is_object()) return wanted(json, "an object with \"name\" and \"tools\"");
  Namespace space;
  space.name = TRY(text_at(json, "name"));
  space.description = TRY(optional_text(json, "description"));
  space.tools = TRY(list_at(json, "tools", tool_of));
  return space;
}

Result<Namespaces> namespaces_of(const Json& object) {
  const Json* tools = member(object, "tools");
  if (!tools) return Namespaces();
  if (!tools->is_object())
    return within(Result<Namespaces>(wanted(*tools, "an object of namespaces")), "tools");
  Namespaces out;
  for (const auto& [key, value] : tools->items())
    out[key] = TRY(within(namespace_of(value), "tools." + key));
  return out;
}

Result<std::optional<ReasoningEffort>> effort_of(const Json& object) {
  const Json* effort = member(object, "reasoning_effort");
  if (!effort) return std::nullopt;
  if (*effort == "Low") return ReasoningEffort::low;
  if (*effort == "Medium") return ReasoningEffort::medium;
  if (*effort == "High") return ReasoningEffort::high;
  return within(Result<std::optional<ReasoningEffort>>(wanted(*effort, "Low, Medium or High")),
                "reasoning_effort");
}

Result<std::optional<ChannelConfig>> channels_of(const Json& object) {
  const Json* config = member(object, "channel_config");
  if (!config) return std::nullopt;
  if (!config->is_object()) return wanted(*config, "an object with \"valid_channels\"");
  ChannelConfig out;
  out.valid_channels = TRY(list_at(*config, "valid_channels", text_of));
  out.channel_required =
      TRY(within(flag_of(*TRY(needed(*config, "channel_required"))), "channel_required"));
  return out;
}

Result<Content> content_of(const Json& json) {
  if (!json.is_object()) return wanted(json, "an object with \"type\"");
  const std::string type = TRY(text_at(json, "type"));
  if (type == "text") return TRY(text_at(json, "text"));
  if (type == "system_content") {
    SystemContent system;
    system.model_identity = TRY(optional_text(json, "model_identity"));
    system.knowledge_cutoff = TRY(optional_text(json, "knowledge_cutoff"));
    system.conversation_start_date = TRY(optional_text(json, "conversation_start_date"));
    system.reasoning_effort = TRY(effort_of(json));
    system.tools = TRY(namespaces_of(json));
    system.channel_config = TRY(within(channels_of(json), "channel_config"));
    return system;
  }
  if (type == "developer_content") {
    DeveloperContent developer;
    developer.instructions = TRY(optional_text(json, "instructions"));
    developer.tools = TRY(namespaces_of(json));
    return developer;
  }
  return wanted(json["type"], "text, system_content or developer_content");
}

Result<Message> message_of(const Json& json) {
  if (!json.is_object()) return wanted(json, "an object with \"role\" and \"content\"");
  Message message;
  message.header.role = TRY(within(role_of(*TRY(needed(json, "role"))), "role"));
  message.header.name = TRY(optional_text(json, "name"));
  message.header.recipient = TRY(optional_text(json, "recipient"));
  message.header.channel = TRY(optional_text(json, "channel"));
  message.header.content_type = TRY(optional_text(json, "content_type"));
  const Json& content = *TRY(needed(json, "content"));
  if (content.is_string())
    message.contents.push_back(content.get<std::string>());
  else if (content.is_array())
    message.contents = TRY(list_at(json, "content", content_of));
  else
    return wanted(content, "content as a string or an array");
  return message;
}

struct Render {
  Conversation conversation;
  RenderOptions options;
};

Result<Render> render_of(const Json& line) {
  using Op = RenderOptions::Op;
  if (!line.is_object()) return wanted(line, "an object with \"conversation\"");
  Render out;
  out.conversation =
      TRY(within(conversation_from_json(*TRY(needed(line, "conversation"))), "conversation"));
  const std::string op = TRY(optional_text(line, "op")).value_or("render");
  if (op == "render")
    out.options.op = Op::render;
  else if (op == "completion")
    out.options.op = Op::completion;
  else if (op == "training")
    out.options.op = Op::training;
  else
    return within(Result<Render>(wanted(op, "render, completion or training")), "op");
  if (const Json* role = member(line, "next_role"))
    out.options.next_role = TRY(within(role_of(*role), "next_role"));
  // Null is the reference's "no configuration", in which nothing is dropped.
  out.options.auto_drop_analysis = !line.contains("auto_drop_analysis");
  if (const Json* drop = member(line, "auto_drop_analysis"))
    out.options.auto_drop_analysis = TRY(within(flag_of(*drop), "auto_drop_analysis"));
  return out;
}

// Ids are 32 bits, whether or not a token has them; as int the upper half is negative.
Result<int> token_of(const Json& json) {
  constexpr int64_t kHighest = std::numeric_limits<uint32_t>::max();
  const bool fits = json.is_number_integer() &&
                    (!json.is_number_unsigned() || json.get<uint64_t>() <= uint64_t(kHighest)) &&
                    json.get<int64_t>() >= 0;
  if (!fits) return wanted(json, "a token id");
  return int(uint32_t(json.get<int64_t>()));
}

struct Parse {
  std::vector<int> tokens;
  std::optional<Role> role;
  bool strict = true;
};

Result<Parse> parse_of(const Json& line) {
  if (!line.is_object()) return wanted(line, "an object with \"tokens\"");
  Parse out;
  out.tokens = TRY(list_at(line, "tokens", token_of));
  if (const Json* role = member(line, "role")) out.role = TRY(within(role_of(*role), "role"));
  if (const Json* strict = member(line, "strict"))
    out.strict = TRY(within(flag_of(*strict), "strict"));
  return out;
}

// The messages so far; the open one is added when it ends.
class Collector {
 public:
  void take(std::vector<Part>& parts) {
    for (Part& part : parts) switch (part.kind) {
        case Part::Kind::begin:
          header_ = std::move(part.header);
          text_.clear();
          break;
        case Part::Kind::text: text_ += part.text; break;
        case Part::Kind::end: messages.push_back(message_to_json(header_, text_)); break;
      }
    parts.clear();
  }
  Json messages = Json::array();

 private:
  Header header_;
  std::string text_;
};

Status parse(Parser& parser, const std::vector<int>& tokens, Collector& collector) {
  std::vector<Part> parts;
  for (const int token : tokens) {
    TRY(parser.push(token, parts));
    collector.take(parts);
  }
  const Status finished = parser.finish(parts);
  collector.take(parts);
  if (finished) return Done{};
  return fail(finished.error().kind, "EOS: " + finished.error().message);
}

}  // namespace

Result<Conversation> conversation_from_json(const Json& json) {
  if (!json.is_object()) return wanted(json, "an object with \"messages\"");
  return Conversation{TRY(list_at(json, "messages", message_of))};
}

Json message_to_json(const Header& header, const std::string& text) {
  Json out;
  out["role"] = role_name(header.role);
  if (header.name) out["name"] = *header.name;
  if (header.recipient) out["recipient"] = *header.recipient;
  out["content"] = text;
  if (header.channel) out["channel"] = *header.channel;
  if (header.content_type) out["content_type"] = *header.content_type;
  return out;
}

}  // namespace harmony

Result<Json> render_json(const Tokenizer& tokenizer, const Json& line) {
  const harmony::Specials specials = TRY(harmony::find_specials(tokenizer));
  const Result<harmony::Render> asked = harmony::render_of(line);
  if (!asked) return Json{{"error", asked.error().message}};
  const auto tokens = harmony::render(tokenizer, specials, asked->conversation, asked->options);
  if (!tokens) return Json{{"error", tokens.error().message}};
  return Json{{"text", tokenizer.decode(*tokens)}, {"tokens", *tokens}};
}

Json parse_json_line(const Tokenizer& tokenizer, const Json& line, bool tolerant) {
  using harmony::Policy;
  harmony::Collector collector;
  const auto parsed = [&]() -> Status {
    const harmony::Specials specials = TRY(harmony::find_specials(tokenizer));
    const harmony::Parse asked = TRY(harmony::parse_of(line));
    const Policy policy = tolerant       ? Policy::tolerant
                          : asked.strict ? Policy::strict
                                         : Policy::lenient;
    harmony::Parser parser(tokenizer, specials, policy, asked.role);
    return harmony::parse(parser, asked.tokens, collector);
  }();
  Json out;
  out["messages"] = std::move(collector.messages);
  out["error"] = parsed ? Json() : Json(parsed.error().message);
  return out;
}

}  // namespace rose
