// GET /openapi.json: every route of the table and every field of the tables, so that it cannot say anything
// else than the program does.
#include "api/context.h"
#include "api/known_fields.h"
#include "api/routes.h"
#include "base/json.h"

namespace rose {

namespace {

struct Body {
  const char* path;
  const char* about;
  std::vector<KnownFields> tables;
  std::vector<std::string> required;
};

// What is known of a route besides that it exists.
std::vector<Body> bodies() {
  const KnownFields generate = generate_fields(), reasoning = reasoning_fields(),
                    output = output_fields();
  const std::vector<KnownFields> chat = {chat_fields(), generate, reasoning, output};
  const std::vector<KnownFields> responses = {responses_fields(), generate, reasoning, output};
  const std::vector<KnownFields> messages = {messages_fields(), generate, reasoning};
  return {
      {"/v1/chat/completions", "Chat Completions", chat, {"messages"}},
      {"/v1/chat/completions/render",
       "The prompt of a chat, as text and tokens",
       chat,
       {"messages"}},
      {"/v1/responses", "Responses", responses, {}},
      {"/v1/responses/input_tokens", "Tokens that a response's input takes", responses, {}},
      {"/v1/completions", "Completions", {completions_fields(), generate, output}, {"prompt"}},
      {"/v1/messages", "Anthropic's Messages", messages, {"messages"}},
      {"/v1/messages/count_tokens", "Tokens that messages take", messages, {"messages"}},
  };
}

Json schema_of(const Body& body) {
  Json properties = Json::object();
  for (const KnownFields table : body.tables)
    for (const KnownField& field : table) {
      if (properties.contains(field.name)) continue;
      Json about = Json::object();
      if (field.use == Use::nothing) about["description"] = "Accepted; it has no effect.";
      if (field.use == Use::refused) {
        std::string refused = "Not supported";
        if (*field.instead) refused += std::string(": ") + field.instead;
        about["description"] = refused + ".";
        about["deprecated"] = true;
      }
      properties[field.name] = std::move(about);
    }
  Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!body.required.empty()) schema["required"] = body.required;
  return schema;
}

Json operation(const Route& route, const std::vector<Body>& known, bool has_part) {
  Json operation = {{"responses", {{"200", {{"description", "OK"}}}}}};
  if (has_part)
    operation["parameters"] = Json::array(
        {{{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}});
  if (std::string_view(route.method) != "POST") return operation;
  for (const Body& body : known) {
    if (std::string_view(body.path) != route.path) continue;
    operation["summary"] = body.about;
    operation["requestBody"] = {{"required", true},
                                {"content", {{"application/json", {{"schema", schema_of(body)}}}}}};
  }
  return operation;
}

std::string document(const std::string& version) {
  const std::vector<Body> known = bodies();
  Json paths = Json::object();
  for (const Route& route : routes()) {
    if (route.probe == get_web) continue;  // pages
    std::string path = route.path, method;
    const size_t any = path.find('*');
    if (any != path.npos) path.replace(any, 1, "{id}");
    for (const char* letter = route.method; *letter; ++letter)
      method += char(std::tolower(*letter));
    paths[path][method] = operation(route, known, any != path.npos);
  }
  return dump_json({{"openapi", "3.1.0"},
                    {"info", {{"title", "rose"}, {"version", version}}},
                    {"paths", std::move(paths)}});
}

}  // namespace

void get_openapi(ServerState& state, Exchange exchange) {
  static const std::string text = document(state.version);
  exchange.respond({.body = text});
}

}  // namespace rose
