#include "text/grammar/schema_merge.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/json.h"
#include "text/grammar/schema_keywords.h"

namespace rose::grammar {

namespace {

constexpr int kMaxMergeDepth = 16;  // of allOf in allOf
constexpr int kMaxAdded = 2000;     // schemas that are merged into others

// Beside the merged keywords while a merge goes on: the names that each schema with
// "additionalProperties": false lets through.
constexpr const char* kClosed = " closed";

std::vector<std::string> types_of(const Json& schema) {
  std::vector<std::string> types;
  const auto type = schema.find("type");
  if (type == schema.end()) return types;
  for (const Json& name : type->is_array() ? *type : Json::array({*type}))
    if (name.is_string()) types.push_back(name.get<std::string>());
  return types;
}

Json common_types(const Json& one, const Json& other) {
  Json common = Json::array();
  for (const std::string& a : types_of({{"type", one}}))
    for (const std::string& b : types_of({{"type", other}})) {
      if (a == b) common.push_back(a);
      if ((a == "integer" && b == "number") || (a == "number" && b == "integer"))
        common.push_back("integer");
    }
  return common;
}

bool is_among(const Json& list, const Json& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// What a schema lists as valid; null: it lists nothing.
Json values_of(const Json& schema) {
  if (const auto single = schema.find("const"); single != schema.end())
    return Json::array({*single});
  const auto listed = schema.find("enum");
  return listed != schema.end() && listed->is_array() ? *listed : Json();
}

}  // namespace

SchemaMerger::~SchemaMerger() = default;

Result<const Json*> SchemaMerger::merge(const Json& schema) {
  Json into = Json::object();
  TRY(add(schema, 0, into));
  TRY(settle_others(into));
  merged_.push_back(std::move(into));
  return &merged_.back();
}

Status SchemaMerger::add(const Json& schema, int depth, Json& into) {
  if (schema.is_boolean() && schema.get<bool>()) return Done{};
  if (!schema.is_object()) return refuse("'allOf' must be a list of schemas that are objects");
  if (depth > kMaxMergeDepth || ++added_ > kMaxAdded)
    return refuse("'allOf' within 'allOf' goes too deep, or leads back to itself");
  if (const auto reference = schema.find("$ref"); reference != schema.end()) {
    if (!reference->is_string()) return refuse("'$ref' must be a string");
    TRY(add(*TRY(resolve_reference(root_, reference->get<std::string>())), depth + 1, into));
  }
  for (const auto& [name, value] : schema.items()) {
    if (name == "$ref") continue;
    if (name == "allOf") {
      if (!value.is_array()) return refuse("'allOf' must be a list of schemas");
      for (const Json& part : value) TRY(add(part, depth + 1, into));
    } else if (name == "properties") {
      TRY(add_properties(value, into));
    } else if (name == "additionalProperties") {
      if (!value.is_boolean())
        return refuse("'additionalProperties' with a schema, in 'allOf', is not supported");
      if (value.get<bool>()) continue;
      Json names = Json::array();
      const Json properties = schema.value("properties", Json::object());
      for (const auto& [property, _] : properties.items()) names.push_back(property);
      into[kClosed].push_back(std::move(names));
    } else {
      TRY(add_keyword(name, value, into));
    }
  }
  return Done{};
}

Status SchemaMerger::add_properties(const Json& properties, Json& into) {
  if (!properties.is_object()) return refuse("'properties' must be an object");
  for (const auto& [name, value] : properties.items()) {
    Json& all = into["properties"];
    if (!all.contains(name))
      all[name] = value;
    else if (all[name] != value)
      all[name] = {{"allOf", Json::array({all[name], value})}};
  }
  return Done{};
}

Status SchemaMerger::add_keyword(const std::string& name, const Json& value, Json& into) {
  const auto known = into.find(name);
  if (known == into.end() || *known == value) {
    into[name] = value;
    return Done{};
  }
  const auto is_one_of = [&](std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (is_one_of({"title", "description", "default", "example", "examples", "deprecated", "readOnly",
                 "writeOnly", "$schema", "$id", "id", "$comment", "$defs", "definitions"}))
    return Done{};  // a note: $refs lead into the root, not in here
  if (name == "type") {
    Json common = common_types(*known, value);
    if (common.empty()) return refuse("'type' in 'allOf': no value is of both types");
    *known = std::move(common);
  } else if (name == "required" && known->is_array() && value.is_array()) {
    for (const Json& needed : value)
      if (!is_among(*known, needed)) known->push_back(needed);
  } else if (name == "enum" && known->is_array() && value.is_array()) {
    Json common = Json::array();
    for (const Json& listed : value)
      if (is_among(*known, listed)) common.push_back(listed);
    *known = std::move(common);
  } else if (known->is_number() && value.is_number() &&
             is_one_of({"minimum", "exclusiveMinimum", "minLength", "minItems"})) {
    if (value.get<double>() > known->get<double>()) *known = value;
  } else if (known->is_number() && value.is_number() &&
             is_one_of({"maximum", "exclusiveMaximum", "maxLength", "maxItems"})) {
    if (value.get<double>() < known->get<double>()) *known = value;
  } else {
    return refuse("'" + name.substr(0, 80) + "' twice, in 'allOf', is not supported");
  }
  return Done{};
}

// A closed schema lets only its own properties through, also of those that the others name.
Status SchemaMerger::settle_others(Json& into) {
  const auto closed = into.find(kClosed);
  if (closed == into.end()) return Done{};
  const Json lists = std::move(*closed);
  into.erase(kClosed);
  Json properties = into.value("properties", Json::object());
  const Json required = into.value("required", Json::array());
  for (const Json& names : lists)
    for (auto property = properties.begin(); property != properties.end();) {
      if (is_among(names, property.key())) {
        ++property;
        continue;
      }
      if (is_among(required, property.key()))
        return refuse("'additionalProperties' in 'allOf' excludes '" +
                      property.key().substr(0, 80) + "', which is required");
      property = properties.erase(property);
    }
  into["properties"] = std::move(properties);
  into["additionalProperties"] = false;
  return Done{};
}

bool SchemaMerger::exclude_each_other(const Json& one, const Json& other) const {
  const auto resolved = [&](const Json& schema) {
    const Json* at = &schema;
    for (int hops = 0; hops < kMaxMergeDepth && at->is_object() && at->contains("$ref"); ++hops) {
      if (!(*at)["$ref"].is_string()) return at;
      const auto target = resolve_reference(root_, (*at)["$ref"].get<std::string>());
      if (!target) return at;
      at = *target;
    }
    return at;
  };
  const Json &a = *resolved(one), &b = *resolved(other);
  if (!a.is_object() || !b.is_object() || a.contains("$ref") || b.contains("$ref")) return false;
  const Json values_a = values_of(a), values_b = values_of(b);
  if (values_a.is_array() && values_b.is_array())
    return std::none_of(values_a.begin(), values_a.end(),
                        [&](const Json& value) { return is_among(values_b, value); });
  const auto none_is_of = [](const Json& values, const std::vector<std::string>& types) {
    return !types.empty() && std::none_of(values.begin(), values.end(), [&](const Json& value) {
      return std::any_of(types.begin(), types.end(),
                         [&](const std::string& type) { return is_of_type(value, type); });
    });
  };
  const std::vector<std::string> types_a = types_of(a), types_b = types_of(b);
  if (values_a.is_array() && none_is_of(values_a, types_b)) return true;
  if (values_b.is_array() && none_is_of(values_b, types_a)) return true;
  if (!types_a.empty() && !types_b.empty() && common_types(types_a, types_b).empty()) return true;
  if (types_a != std::vector<std::string>{"object"} || types_b != types_a) return false;

  // Objects: a property that both require tells them apart, or one that the other has no place for.
  const auto list = [](const Json& schema, const char* name) {
    const auto found = schema.find(name);
    return found != schema.end() && found->is_array() ? *found : Json::array();
  };
  const auto properties = [](const Json& schema) {
    const auto found = schema.find("properties");
    return found != schema.end() && found->is_object() ? *found : Json::object();
  };
  const Json in_a = properties(a), in_b = properties(b);
  const auto tells_apart = [&](const Json& first, const Json& in_first, const Json& second,
                               const Json& in_second) {
    for (const Json& name : list(first, "required")) {
      if (!name.is_string()) return false;
      const std::string key = name.get<std::string>();
      const auto others = second.find("additionalProperties");
      if (!in_second.contains(key) && others != second.end() && *others == false) return true;
      if (!is_among(list(second, "required"), name)) continue;
      if (!in_first.contains(key) || !in_second.contains(key)) continue;
      const Json* x = resolved(in_first.at(key));
      const Json* y = resolved(in_second.at(key));
      if (!x->is_object() || !y->is_object()) continue;
      const Json p = values_of(*x), q = values_of(*y);
      if (p.is_array() && q.is_array() &&
          std::none_of(p.begin(), p.end(), [&](const Json& value) { return is_among(q, value); }))
        return true;
    }
    return false;
  };
  return tells_apart(a, in_a, b, in_b) || tells_apart(b, in_b, a, in_a);
}

}  // namespace rose::grammar
