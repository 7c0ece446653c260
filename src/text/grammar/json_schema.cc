#include "text/grammar/json_schema.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/json.h"
#include "text/grammar/json_format.h"
#include "text/grammar/json_multiples.h"
#include "text/grammar/json_objects.h"
#include "text/grammar/json_rules.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_keywords.h"
#include "text/grammar/schema_merge.h"

namespace rose::grammar {

namespace {

// Schemas within the schema. Finding one by its name takes time in proportion to their number.
constexpr size_t kMaxParts = 20'000;
constexpr size_t kMaxOneOf = 64;  // schemas: each is compared with each other

// A schema within the schema, and where: "/properties/name".
struct Part {
  const Json* schema;
  std::string path;
};

// Names in a schema may hold anything; an error is one line.
std::string one_line(std::string text) {
  for (char& c : text)
    if (uint8_t(c) < ' ') c = ' ';
  return text;
}

class SchemaCompiler {
 public:
  SchemaCompiler(Grammar& grammar, const Json& root)
      : grammar_(grammar), json_(grammar), root_(root), merger_(root) {}

  // Parts are done one after another, not one inside the other: a chain of $refs is no recursion.
  Result<Expr> run() {
    const Expr start = part({&root_, ""});
    for (; !to_do_.empty(); to_do_.pop_front()) {
      const auto& [at, rule] = to_do_.front();
      auto expr = schema(at);
      if (!expr) {
        const std::string where = at.path.empty() ? "the schema" : at.path.substr(0, 200);
        return fail(ErrorKind::invalid, one_line(where + ": " + expr.error().message));
      }
      grammar_.define(rule, *expr);
      if (grammar_.too_large() || rules_.size() > kMaxParts)
        return fail(ErrorKind::invalid, "the schema is too large");
    }
    return start;
  }

 private:
  // Each part becomes one rule, however often it is referred to.
  Expr part(const Part& at) {
    const auto [known, added] = rules_.try_emplace(at.schema, 0);
    if (added) {
      known->second = grammar_.declare();
      to_do_.emplace_back(at, known->second);
    }
    return grammar_.call(known->second);
  }
  Expr child(const Part& at, const std::string& key) {
    return part({&at.schema->at(key), at.path + "/" + key});
  }

  Result<Expr> schema(const Part& at) {
    const Json& schema = *at.schema;
    if (schema.is_boolean()) return schema.get<bool>() ? json_.value() : grammar_.nothing();
    if (!schema.is_object()) return refuse("a schema must be an object or a boolean");
    if (must_merge(schema)) return part({TRY(merger_.merge(schema)), at.path + "/allOf"});
    const Keywords keywords = TRY(read_keywords(schema));
    switch (keywords.form) {
      case Form::reference: return reference(schema);
      case Form::all_of: return part({&schema["allOf"][0], at.path + "/allOf/0"});
      case Form::any_of: return any_of(at, "anyOf");
      case Form::one_of: return one_of(at);
      case Form::values: return values(schema, keywords.types);
      case Form::typed: break;
    }
    if (keywords.types.empty()) return json_.value();
    std::vector<Expr> parts;
    for (const std::string& type : keywords.types) parts.push_back(TRY(typed(at, type)));
    return grammar_.any_of(std::move(parts));
  }

  Result<Expr> reference(const Json& schema) {
    const std::string pointer = schema["$ref"].get<std::string>();
    const Json* target = TRY(resolve_reference(root_, pointer));
    return part({target, pointer.substr(1)});
  }

  // One schema in allOf, with nothing beside it, is that schema.
  static bool must_merge(const Json& schema) {
    const auto all = schema.find("allOf");
    if (all == schema.end() || !all->is_array() || all->empty()) return false;
    if (all->size() > 1) return true;
    for (const auto& [name, value] : schema.items())
      if (name != "allOf" && !is_note(name)) return true;
    return false;
  }

  Result<Expr> any_of(const Part& at, const char* keyword) {
    std::vector<Expr> parts;
    const Json& variants = at.schema->at(keyword);
    for (size_t i = 0; i < variants.size(); ++i)
      parts.push_back(part({&variants[i], at.path + strf("/%s/%zu", keyword, i)}));
    return grammar_.any_of(std::move(parts));
  }

  // Where no value can be of two of them, "exactly one" is "any".
  Result<Expr> one_of(const Part& at) {
    const Json& variants = at.schema->at("oneOf");
    if (variants.size() > kMaxOneOf)
      return refuse(
          strf("'oneOf' has %zu schemas, at most %zu are possible", variants.size(), kMaxOneOf));
    for (size_t i = 0; i < variants.size(); ++i)
      for (size_t other = 0; other < i; ++other)
        if (!merger_.exclude_each_other(variants[other], variants[i]))
          return refuse(strf(
              "'oneOf' is not supported where two may hold, as %zu and %zu; use anyOf", other, i));
    return any_of(at, "oneOf");
  }

  Result<Expr> values(const Json& schema, const std::vector<std::string>& types) {
    std::vector<std::string> texts;
    const auto add = [&](const Json& value) {
      if (types.empty() || std::any_of(types.begin(), types.end(), [&](const std::string& type) {
            return is_of_type(value, type);
          }))
        texts.push_back(dump_json(value));
    };
    const auto listed = schema.find("enum"), single = schema.find("const");
    if (single != schema.end()) {
      if (listed == schema.end() ||
          std::find(listed->begin(), listed->end(), *single) != listed->end())
        add(*single);
    } else {
      for (const Json& value : *listed) add(value);
    }
    return grammar_.literals(std::move(texts));
  }

  Result<Expr> typed(const Part& at, const std::string& type) {
    const Json& schema = *at.schema;
    if (type == "object") return object(at);
    if (type == "array") return array(at);
    if (type == "string") return string(schema);
    if (type == "number") return number(schema);
    if (type == "integer") return integer(schema);
    if (type == "boolean") return json_.boolean();
    return json_.null();
  }

  Result<Expr> string(const Json& schema) {
    const Range length = TRY(read_range(schema, "minLength", "maxLength"));
    const auto pattern = schema.find("pattern"), format = schema.find("format");
    if (pattern == schema.end() && format == schema.end())
      return json_.string(length.low, length.high);
    const char* kind = pattern != schema.end() ? "pattern" : "format";
    if (length.given || (pattern != schema.end() && format != schema.end()))
      return refuse(
          strf("'%s' beside '%s' is not supported", kind, length.given ? length.given : "format"));
    const Expr quote = grammar_.literal("\"");
    Expr inside;
    if (pattern != schema.end()) {
      inside = TRY(within(
          regex(grammar_, pattern->get<std::string>(), Extent::anywhere, Writing::json_string),
          "pattern"));
    } else {
      const char* known = format_pattern(format->get<std::string>());
      if (!known)
        return refuse(strf("format '%.40s' is not supported; known are %s",
                           format->get<std::string>().c_str(), known_formats().c_str()));
      inside = TRY(regex(grammar_, known, Extent::whole, Writing::json_string));
    }
    return grammar_.sequence({quote, inside, quote});
  }

  Result<Expr> integer(const Json& schema) {
    const Bounds bounds = TRY(read_bounds(schema));
    if (const auto of = schema.find("multipleOf"); of != schema.end())
      return multiples(grammar_, *of, bounds, true);
    const auto [low, high] = integers_within(bounds);
    if (!bounds.low && !bounds.high) return json_.integer();
    return integer_between(grammar_, low, high);
  }

  Result<Expr> number(const Json& schema) {
    const Bounds bounds = TRY(read_bounds(schema));
    if (const auto of = schema.find("multipleOf"); of != schema.end())
      return multiples(grammar_, *of, bounds, false);
    if (!bounds.low && !bounds.high) return json_.number();
    return number_between(grammar_, bounds.low, bounds.high);
  }

  Result<Expr> array(const Part& at) {
    const Range count = TRY(read_range(*at.schema, "minItems", "maxItems"));
    const Expr item = at.schema->contains("items") ? child(at, "items") : json_.value();
    const auto prefix = at.schema->find("prefixItems");
    if (prefix == at.schema->end() || prefix->empty())
      return json_.list("[", item, "]", count.low, count.high);
    std::vector<Expr> first;
    for (size_t i = 0; i < prefix->size(); ++i)
      first.push_back(part({&(*prefix)[i], at.path + strf("/prefixItems/%zu", i)}));
    const auto others = at.schema->find("items");
    const bool closed = others != at.schema->end() && *others == false;
    return json_.tuple(first, closed ? std::nullopt : std::optional(item), count.low, count.high);
  }

  Result<Expr> object(const Part& at) {
    const Json& schema = *at.schema;
    const auto properties = schema.find("properties"), required = schema.find("required"),
               others = schema.find("additionalProperties");
    const bool may_have_others = others != schema.end()
                                     ? !(others->is_boolean() && !others->get<bool>())
                                     : properties == schema.end();
    const auto other_value = [&] {
      return others != schema.end() ? child(at, "additionalProperties") : json_.value();
    };
    std::set<std::string> needed;
    if (required != schema.end())
      for (const Json& name : *required) needed.insert(name.get<std::string>());

    std::vector<Property> members;
    if (properties != schema.end())
      for (const auto& [name, value] : properties->items())
        members.push_back(
            {name, part({&value, at.path + "/properties/" + name}), needed.erase(name) > 0});
    for (const std::string& name : needed) {
      if (!may_have_others)
        return refuse("'required' names '" + name.substr(0, 80) + "', which is no property");
      members.push_back({name, other_value(), true});
    }
    return object_of(grammar_, json_, members,
                     may_have_others ? std::optional(other_value()) : std::nullopt);
  }

  Grammar& grammar_;
  JsonRules json_;
  const Json& root_;
  SchemaMerger merger_;
  std::map<const Json*, Rule> rules_;
  std::deque<std::pair<Part, Rule>> to_do_;
};

}  // namespace

Result<Expr> json_schema(Grammar& grammar, const Json& schema) {
  return SchemaCompiler(grammar, schema).run();
}

Expr json_object(Grammar& grammar) { return JsonRules(grammar).object(); }

}  // namespace rose::grammar
