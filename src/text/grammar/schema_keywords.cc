#include "text/grammar/schema_keywords.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/json.h"
#include "text/grammar/pattern_reader.h"

namespace rose::grammar {

namespace {

enum class Use {
  note,    // says nothing about what is valid
  form,    // stands alone but for notes
  value,   // lists what is valid; beside `type` at most
  object,  // about values of one type
  array,
  string,
  number,
};

struct Keyword {
  const char* name;
  Use use;
  bool (Json::*is)() const noexcept = nullptr;  // what its value must be
  const char* wanted = "";
};

constexpr Keyword kKeywords[] = {
    {"type", Use::value},
    {"enum", Use::value, &Json::is_array, "a list"},
    {"const", Use::value},
    {"anyOf", Use::form, &Json::is_array, "a list of schemas"},
    {"oneOf", Use::form, &Json::is_array, "a list of schemas"},
    {"allOf", Use::form, &Json::is_array, "a list of schemas"},
    {"$ref", Use::form, &Json::is_string, "a string"},
    {"properties", Use::object, &Json::is_object, "an object"},
    {"required", Use::object, &Json::is_array, "a list of names"},
    {"additionalProperties", Use::object},
    {"items", Use::array},
    {"prefixItems", Use::array, &Json::is_array, "a list of schemas"},
    {"minItems", Use::array},
    {"maxItems", Use::array},
    {"minLength", Use::string},
    {"maxLength", Use::string},
    {"pattern", Use::string, &Json::is_string, "a string"},
    {"format", Use::string, &Json::is_string, "a string"},
    {"minimum", Use::number, &Json::is_number, "a number"},
    {"maximum", Use::number, &Json::is_number, "a number"},
    {"exclusiveMinimum", Use::number, &Json::is_number, "a number"},
    {"exclusiveMaximum", Use::number, &Json::is_number, "a number"},
    {"multipleOf", Use::number, &Json::is_number, "a number"},
    {"title", Use::note},
    {"description", Use::note},
    {"default", Use::note},
    {"example", Use::note},
    {"examples", Use::note},
    {"deprecated", Use::note},
    {"readOnly", Use::note},
    {"writeOnly", Use::note},
    {"$schema", Use::note},
    {"$id", Use::note},
    {"id", Use::note},
    {"$comment", Use::note},
    {"$defs", Use::note},
    {"definitions", Use::note},
    {"contentEncoding", Use::note},
    {"contentMediaType", Use::note},
};

struct TypeOf {
  const char* name;
  Use use;
};
constexpr TypeOf kTypes[] = {{"object", Use::object},  {"array", Use::array},
                             {"string", Use::string},  {"number", Use::number},
                             {"integer", Use::number}, {"boolean", Use::note},
                             {"null", Use::note}};

const TypeOf* find_type(const std::string& name) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const TypeOf& type) { return name == type.name; });
  return found == std::end(kTypes) ? nullptr : found;
}

Result<const Keyword*> find_keyword(const std::string& name, const Json& value) {
  const auto* found = std::find_if(std::begin(kKeywords), std::end(kKeywords),
                                   [&](const Keyword& keyword) { return name == keyword.name; });
  if (found == std::end(kKeywords)) return refuse("'" + name.substr(0, 80) + "' is not supported");
  if (found->is && !(value.*(found->is))())
    return refuse(strf("'%s' must be %s", found->name, found->wanted));
  return found;
}

Result<std::vector<std::string>> read_types(const Json& schema) {
  std::vector<std::string> types;
  const auto type = schema.find("type");
  if (type == schema.end()) return types;
  const auto add = [&](const Json& name) -> Status {
    if (!name.is_string() || !find_type(name.get<std::string>()))
      return refuse("type " + dump_json(name).substr(0, 80) +
                    " is not supported, wanted object, array, string, number, integer, boolean or "
                    "null");
    types.push_back(name.get<std::string>());
    return Done{};
  };
  if (!type->is_array()) {
    TRY(add(*type));
    return types;
  }
  if (type->empty()) return refuse("'type' is an empty list");
  for (const Json& name : *type) TRY(add(name));
  return types;
}

Status check_lists(const Json& schema) {
  if (const auto required = schema.find("required"); required != schema.end())
    if (!std::all_of(required->begin(), required->end(),
                     [](const Json& e) { return e.is_string(); }))
      return refuse("'required' must be a list of names");
  for (const char* name : {"anyOf", "oneOf", "allOf"})
    if (const auto list = schema.find(name); list != schema.end() && list->empty())
      return refuse(strf("'%s' is an empty list", name));
  return Done{};
}

// "1.5e-07" written out.
std::string without_exponent(const std::string& text) {
  const size_t mark = text.find_first_of("eE");
  if (mark == std::string::npos) return text;
  const int exponent = std::stoi(text.substr(mark + 1));
  const std::string sign = text.starts_with('-') ? "-" : "";
  std::string digits = text.substr(sign.size(), mark - sign.size());
  const size_t point = std::min(digits.find('.'), digits.size());
  if (point < digits.size()) digits.erase(point, 1);
  const int place = int(point) + exponent;  // of the point
  if (place <= 0) return sign + "0." + std::string(size_t(-place), '0') + digits;
  if (size_t(place) >= digits.size())
    return sign + digits + std::string(size_t(place) - digits.size(), '0');
  return sign + digits.substr(0, size_t(place)) + "." + digits.substr(size_t(place));
}

}  // namespace

tl::unexpected<Error> refuse(std::string what) { return fail(ErrorKind::invalid, std::move(what)); }

Result<Keywords> read_keywords(const Json& schema) {
  Keywords keywords;
  std::string form, values, typed;  // one of each kind that is there
  std::vector<Use> about;
  for (const auto& [name, value] : schema.items()) {
    if (name.starts_with("x-")) continue;  // extensions are notes
    const Keyword* keyword = TRY(find_keyword(name, value));
    switch (keyword->use) {
      case Use::note: continue;
      case Use::form:
        if (!form.empty()) return refuse("'" + name + "' beside '" + form + "' is not supported");
        form = name;
        continue;
      case Use::value: (name == "type" ? typed : values) = name; continue;
      default: typed = name; about.push_back(keyword->use);
    }
  }
  if (!form.empty() && !(values + typed).empty())
    return refuse("'" + (values.empty() ? typed : values) + "' beside '" + form +
                  "' is not supported");
  if (!values.empty() && !about.empty())
    return refuse("'" + typed + "' beside '" + values + "' is not supported");
  TRY(check_lists(schema));
  keywords.types = TRY(read_types(schema));
  if (form == "$ref") keywords.form = Form::reference;
  if (form == "anyOf") keywords.form = Form::any_of;
  if (form == "oneOf") keywords.form = Form::one_of;
  if (form == "allOf") keywords.form = Form::all_of;
  if (!values.empty()) keywords.form = Form::values;
  if (!keywords.types.empty() || about.empty()) return keywords;
  // Without a type, what is said about one type means that one here.
  for (const TypeOf& type : kTypes)
    if (std::string(type.name) != "integer" &&
        std::find(about.begin(), about.end(), type.use) != about.end())
      keywords.types.push_back(type.name);
  return keywords;
}

bool is_note(const std::string& keyword) {
  return keyword.starts_with("x-") ||
         std::any_of(std::begin(kKeywords), std::end(kKeywords), [&](const Keyword& row) {
           return row.use == Use::note && keyword == row.name;
         });
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  return value.is_number_integer() ||
         (value.is_number() && std::trunc(value.get<double>()) == value.get<double>());
}

Result<Range> read_range(const Json& schema, const char* low, const char* high) {
  Range range;
  const auto read = [&](const char* name, int& into) -> Status {
    const auto found = schema.find(name);
    if (found == schema.end()) return Done{};
    if (!is_of_type(*found, "integer") || found->get<double>() < 0)
      return refuse(strf("'%s' must be a whole number of 0 or more", name));
    if (found->get<double>() > kMaxCount)
      return refuse(strf("'%s' is more than %d", name, kMaxCount));
    into = found->get<int>();
    range.given = name;
    return Done{};
  };
  TRY(read(low, range.low));
  TRY(read(high, range.high));
  if (range.high != kNoLimit && range.low > range.high)
    return refuse(strf("'%s' is more than '%s'", low, high));
  return range;
}

Result<Bounds> read_bounds(const Json& schema) {
  struct Name {
    const char* name;
    bool is_low, open;
  };
  constexpr Name kNames[] = {{"minimum", true, false},
                             {"exclusiveMinimum", true, true},
                             {"maximum", false, false},
                             {"exclusiveMaximum", false, true}};
  Bounds bounds;
  for (const Name& name : kNames) {
    const auto found = schema.find(name.name);
    if (found == schema.end()) continue;
    std::optional<Bound>& bound = name.is_low ? bounds.low : bounds.high;
    if (bound)
      return refuse(strf("'%s' beside '%s' is not supported", name.name,
                         name.is_low ? "minimum" : "maximum"));
    bound = Bound{without_exponent(dump_json(*found)), name.open};
  }
  return bounds;
}

std::pair<int64_t, int64_t> integers_within(const Bounds& bounds) {
  const auto whole = [](const Bound& bound, bool up) {
    constexpr double kFar = 4e18;  // past all numbers that are written
    const double value = std::clamp(std::strtod(bound.text.c_str(), nullptr), -kFar, kFar);
    const double rounded = up ? std::ceil(value) : std::floor(value);
    const int64_t step = bound.open && rounded == value ? 1 : 0;
    return int64_t(rounded) + (up ? step : -step);
  };
  return {bounds.low ? whole(*bounds.low, true) : -kMaxInteger,
          bounds.high ? whole(*bounds.high, false) : kMaxInteger};
}

Result<const Json*> resolve_reference(const Json& root, const std::string& reference) {
  const std::string shown = "$ref '" + reference.substr(0, 80) + "'";
  if (!reference.starts_with("#")) return refuse(shown + " leads out of the schema, wanted #/…");
  const Json* at = &root;
  for (size_t from = 1; from < reference.size();) {
    if (reference[from] != '/') return refuse(shown + " is no JSON pointer");
    const size_t end = std::min(reference.find('/', from + 1), reference.size());
    std::string key;
    for (size_t i = from + 1; i < end; ++i) {
      const std::string_view rest = std::string_view(reference).substr(i);
      const bool escape = rest.starts_with("~0") || rest.starts_with("~1");
      key += escape ? (rest[1] == '0' ? '~' : '/') : rest[0];
      i += escape ? 1 : 0;
    }
    const Json* next = nullptr;
    if (at->is_object() && at->contains(key)) next = &at->at(key);
    if (at->is_array() && !key.empty() && key.size() < 9 &&
        key.find_first_not_of("0123456789") == std::string::npos &&
        size_t(std::stoi(key)) < at->size())
      next = &at->at(size_t(std::stoi(key)));
    if (!next) return refuse(shown + " leads to nothing");
    at = next;
    from = end;
  }
  return at;
}

}  // namespace rose::grammar
