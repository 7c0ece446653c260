// For tests: says whether a JSON value is valid under a schema, the plain way, knowing nothing of
// grammars. Formats and patterns are the test's own, as functions.
#pragma once
#include <cmath>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "base/json.h"
#include "text/utf8.h"

namespace rose::grammar::testing {

class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  bool valid(const Json& value) const { return valid(root_, value); }

 private:
  static bool is_type(const Json& value, const std::string& type) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    if (type == "number") return value.is_number();
    return value.is_number() && value.get<double>() == std::trunc(value.get<double>());
  }

  // One element a character, so that a pattern's '.' is one.
  static std::wstring wide(const std::string& text) {
    std::wstring out;
    for (size_t at = 0; at < text.size();) {
      const size_t size = utf8_part(std::string_view(text).substr(at)).size;
      constexpr uint8_t kFirst[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
      wchar_t character = wchar_t(uint8_t(text[at]) & kFirst[size]);
      for (size_t i = 1; i < size; ++i)
        character = wchar_t(character << 6 | (uint8_t(text[at + i]) & 0x3F));
      out += character;
      at += size;
    }
    return out;
  }

  static size_t characters(const std::string& text) {
    size_t count = 0;
    for (const char c : text) count += (uint8_t(c) & 0xC0) != 0x80;
    return count;
  }

  static bool has_format(const std::string& text, const std::string& format) {
    static const std::map<std::string, const char*> kShapes = {
        {"date", "\\d\\d\\d\\d-[01]\\d-[0-3]\\d"},
        {"date-time",
         "\\d\\d\\d\\d-[01]\\d-[0-3]\\dT[0-2]\\d:[0-5]\\d:[0-5]\\d(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d)"},
        {"time", "[0-2]\\d:[0-5]\\d:[0-5]\\d(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d)"},
        {"duration", "P([0-9]+[YMWD])*(T([0-9]+[HMS])+)?"},
        {"email", "[^@ ]+@[^@. ]+(\\.[^@. ]+)+"},
        {"hostname", "[A-Za-z0-9-]+(\\.[A-Za-z0-9-]+)*"},
        {"ipv4", "\\d{1,3}(\\.\\d{1,3}){3}"},
        {"ipv6", "[0-9a-fA-F:]{2,39}"},
        {"uri", "https?://[^ ]+"},
        {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"}};
    return std::regex_match(text, std::regex(kShapes.at(format)));
  }

  bool valid_string(const Json& schema, const std::string& text) const {
    if (characters(text) < schema.value("minLength", size_t(0))) return false;
    if (schema.contains("maxLength") && characters(text) > schema["maxLength"].get<size_t>())
      return false;
    if (schema.contains("pattern") &&
        !std::regex_search(wide(text), std::wregex(wide(schema["pattern"].get<std::string>()))))
      return false;
    return !schema.contains("format") || has_format(text, schema["format"].get<std::string>());
  }

  static bool valid_number(const Json& schema, double x) {
    if (schema.contains("multipleOf")) {
      const double times = x / schema["multipleOf"].get<double>();
      if (std::abs(times - std::round(times)) > 1e-6 * std::max(1.0, std::abs(times) * 1e-6))
        return false;
    }
    return !(schema.contains("minimum") && x < schema["minimum"].get<double>()) &&
           !(schema.contains("maximum") && x > schema["maximum"].get<double>()) &&
           !(schema.contains("exclusiveMinimum") &&
             x <= schema["exclusiveMinimum"].get<double>()) &&
           !(schema.contains("exclusiveMaximum") && x >= schema["exclusiveMaximum"].get<double>());
  }

  bool valid_object(const Json& schema, const Json& value) const {
    for (const Json& name : schema.value("required", Json::array()))
      if (!value.contains(name.get<std::string>())) return false;
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [key, member] : value.items()) {
      if (properties.contains(key)) {
        if (!valid(schema["properties"][key], member)) return false;
      } else if (schema.contains("additionalProperties")) {
        if (!valid(schema["additionalProperties"], member)) return false;
      }
    }
    return true;
  }

  bool valid_array(const Json& schema, const Json& value) const {
    if (value.size() < schema.value("minItems", size_t(0))) return false;
    if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<size_t>())
      return false;
    const Json prefix = schema.value("prefixItems", Json::array());
    for (size_t i = 0; i < value.size(); ++i) {
      if (i < prefix.size()) {
        if (!valid(schema["prefixItems"][i], value[i])) return false;
      } else if (schema.contains("items") && !valid(schema["items"], value[i])) {
        return false;
      }
    }
    return true;
  }

  bool valid(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    if (schema.contains("$ref")) {
      const std::string pointer = schema["$ref"].get<std::string>().substr(1);
      // A circle that no part of the value breaks holds for nothing.
      const std::pair<const void*, const void*> here(&schema, &value);
      if (!open_.insert(here).second) return false;
      const bool holds = valid(root_.at(Json::json_pointer(pointer)), value);
      open_.erase(here);
      if (!holds) return false;
    }
    const auto some = [&](const char* keyword, const auto& holds) {
      if (!schema.contains(keyword)) return true;
      for (const Json& part : schema[keyword])
        if (holds(part)) return true;
      return false;
    };
    if (!some("anyOf", [&](const Json& part) { return valid(part, value); })) return false;
    if (schema.contains("oneOf")) {
      int held = 0;
      for (const Json& part : schema["oneOf"]) held += valid(part, value);
      if (held != 1) return false;
    }
    if (schema.contains("allOf"))
      for (const Json& part : schema["allOf"])
        if (!valid(part, value)) return false;
    if (!some("enum", [&](const Json& part) { return part == value; })) return false;
    if (schema.contains("const") && schema["const"] != value) return false;
    if (schema.contains("type")) {
      const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
      bool fits = false;
      for (const Json& type : types) fits |= is_type(value, type.get<std::string>());
      if (!fits) return false;
    }
    if (value.is_string()) return valid_string(schema, value.get<std::string>());
    if (value.is_number()) return valid_number(schema, value.get<double>());
    if (value.is_object()) return valid_object(schema, value);
    if (value.is_array()) return valid_array(schema, value);
    return true;
  }

  const Json root_;
  mutable std::set<std::pair<const void*, const void*>>
      open_;  // references that are being followed
};

}  // namespace rose::grammar::testing
