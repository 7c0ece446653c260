// JSON Schemas: refused with a reason, or every document that the masks allow is valid. The input is a
// schema as it stands, or what one is drawn from.
#include "text/grammar/json_schema.h"

#include <regex>

#include "base/check.h"
#include "base/json.h"
#include "fuzz/targets.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/schema_validator.h"

namespace rose::fuzz {

namespace {

namespace gt = grammar::testing;

constexpr const char* kNames[] = {"a", "ab", "b", "", "\u00e9", "a b", "\"q\"", "\n"};
constexpr const char* kFormats[] = {"date", "date-time", "duration", "email", "hostname",
                                    "ipv4", "ipv6",      "time",     "uri",   "uuid"};
constexpr const char* kPatterns[] = {"^a+$",
                                     "x",
                                     "^[a-z]{2,4}$",
                                     "^(foo|ba[rz])-[0-9]{2,}$",
                                     "[^a]",
                                     "^.{3}$",
                                     "a|^b",
                                     "^\\d+\\.\\w*\\s?$",
                                     "(ab)*c$",
                                     "^$",
                                     "",
                                     "[\u00e0-\u00ff]",
                                     "^(a|b)?c{0}$",
                                     "\\.$",
                                     "^[\\-\\]x]$",
                                     "\\u0041"};
constexpr double kNumbers[] = {0,    1,    -1,     5,     0.5,  -3.25, 10,   100,  1e3,
                               99.9, 1e-3, 123456, -1e-2, 1e10, 7,     1e15, -0.0, 2.000001};

Json value(Choices& choices, int depth) {
  switch (choices.below(depth > 0 ? 8 : 6)) {
    case 0: return nullptr;
    case 1: return choices.below(2) == 1;
    case 2: return int(choices.byte()) - 128;
    case 3: return choices.of(kNumbers);
    case 4: return choices.of(kNames);
    case 5: return "text";
    case 6: return Json::array({value(choices, depth - 1), value(choices, depth - 1)});
    default: return {{choices.of(kNames), value(choices, depth - 1)}};
  }
}

Json schema_from(Choices& choices, int depth);

void add_string_rules(Choices& choices, Json& schema) {
  schema["type"] = "string";
  switch (choices.below(5)) {
    case 0: schema["format"] = choices.of(kFormats); break;
    case 1: schema["pattern"] = choices.of(kPatterns); break;
    case 2: schema["minLength"] = choices.below(6); [[fallthrough]];
    case 3: schema["maxLength"] = choices.below(9); break;
    default: break;
  }
}

void add_number_rules(Choices& choices, Json& schema) {
  schema["type"] = choices.below(2) ? "integer" : "number";
  const size_t rules = choices.byte();
  if (rules & 1) schema[rules & 2 ? "minimum" : "exclusiveMinimum"] = choices.of(kNumbers);
  if (rules & 4) schema[rules & 8 ? "maximum" : "exclusiveMaximum"] = choices.of(kNumbers);
  constexpr double kSteps[] = {1, 2, 3, 7, 10, 100, 0.1, 0.01, 0.5, 0};
  if (rules & 16) schema["multipleOf"] = choices.of(kSteps);
}

void add_array_rules(Choices& choices, Json& schema, int depth) {
  schema["type"] = "array";
  const size_t rules = choices.byte();
  if (rules & 1) schema["items"] = schema_from(choices, depth - 1);
  if (rules & 2) schema["minItems"] = choices.below(4);
  if (rules & 4) schema["maxItems"] = choices.below(5);
  if (rules & 8)
    for (size_t i = 1 + choices.below(3); i > 0; --i)
      schema["prefixItems"].push_back(schema_from(choices, depth - 1));
}

void add_object_rules(Choices& choices, Json& schema, int depth) {
  if (choices.below(4)) schema["type"] = "object";
  const size_t rules = choices.byte();
  if (rules & 1) {
    schema["properties"] = Json::object();
    for (size_t i = choices.below(4); i > 0; --i)
      schema["properties"][choices.of(kNames)] = schema_from(choices, depth - 1);
  }
  if (rules & 2) {
    schema["required"] = Json::array();
    for (size_t i = choices.below(3); i > 0; --i) schema["required"].push_back(choices.of(kNames));
  }
  if (rules & 4) schema["additionalProperties"] = schema_from(choices, depth - 1);
}

Json schema_from(Choices& choices, int depth) {
  Json schema = Json::object();
  switch (choices.below(depth > 0 ? 14 : 7)) {
    case 0: return choices.below(4) > 0;
    case 1: add_string_rules(choices, schema); break;
    case 2: add_number_rules(choices, schema); break;
    case 3: schema["const"] = value(choices, 2); break;
    case 4:
      for (size_t i = 1 + choices.below(4); i > 0; --i) schema["enum"].push_back(value(choices, 1));
      break;
    case 5: {
      constexpr const char* kTypes[] = {"null",    "boolean", "string", "number",
                                        "integer", "array",   "object"};
      for (size_t i = 1 + choices.below(3); i > 0; --i)
        schema["type"].push_back(choices.of(kTypes));
      break;
    }
    case 6: schema["$ref"] = choices.below(2) ? "#" : "#/$defs/a"; break;
    case 7: add_array_rules(choices, schema, depth); break;
    case 8:
    case 9:
    case 10: {
      constexpr const char* kUnions[] = {"allOf", "anyOf", "oneOf"};
      const char* keyword = choices.of(kUnions);
      if (choices.below(4) == 0) add_object_rules(choices, schema, depth);
      for (size_t i = 1 + choices.below(3); i > 0; --i)
        schema[keyword].push_back(schema_from(choices, depth - 1));
      break;
    }
    default: add_object_rules(choices, schema, depth);
  }
  return schema;
}

Json schema_of(std::string_view input) {
  if (auto parsed = parse_json(input)) return std::move(*parsed);
  Choices choices(input);
  Json schema = schema_from(choices, 4);
  if (schema.is_object() && choices.below(2)) schema["$defs"]["a"] = schema_from(choices, 2);
  return schema;
}

}  // namespace

void schema(std::string_view input) {
  const Json schema = schema_of(input);
  const auto constraint = gt::constrain_json(schema, gt::demo_trie());
  if (!constraint) {
    const std::string& message = constraint.error().message;
    ROSE_CHECK(!message.empty() && message.find('\n') == message.npos, "a reason of one line: %s",
               message.c_str());
    return;
  }
  for (uint64_t seed = 0; seed < 2; ++seed) {
    const gt::Walk walk = gt::walk(grammar::Matcher(*constraint), seed + input.size(), 120);
    if (!walk.ended) continue;
    const auto document = parse_json(walk.text);
    const std::string said = dump_json(schema);
    ROSE_CHECK(document.has_value(), "%s allows %s", said.c_str(), walk.text.c_str());
    bool valid = true;
    try {
      valid = gt::Validator(schema).valid(*document);
    } catch (const std::regex_error&) {  // patterns that only ours understands
    }
    ROSE_CHECK(valid, "%s allows %s", said.c_str(), walk.text.c_str());
  }
}

}  // namespace rose::fuzz
