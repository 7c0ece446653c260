#include "text/typescript.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "base/json.h"

namespace rose::harmony {
namespace {

// A schema may refer to itself and multiply by each reference; past these it is `any`.
constexpr int kReferences = 256;        // followed in all
constexpr size_t kReferencesDeep = 16;  // inside each other

const Json* field(const Json& schema, const char* key) {
  if (!schema.is_object()) return nullptr;
  const auto it = schema.find(key);
  return it == schema.end() ? nullptr : &*it;
}

const std::string* text_field(const Json& schema, const char* key) {
  const Json* value = field(schema, key);
  return value ? value->get_ptr<const std::string*>() : nullptr;
}

const Json* array_field(const Json& schema, const char* key) {
  const Json* value = field(schema, key);
  return value && value->is_array() ? value : nullptr;
}

bool is_enum(const Json& schema) {
  const Json* values = array_field(schema, "enum");
  return values && !values->empty();
}

bool is_nullable(const Json& schema) {
  const Json* nullable = field(schema, "nullable");
  return nullable && nullable->is_boolean() && nullable->get<bool>();
}

// The shortest digits that read back as the same number, placed as Rust's serde_json does:
// 1.0, 0.25, 12300000.0, and from 1e16 or below 1e-5 with an exponent.
void append_number(double value, std::string& out) {
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, size_t(end.ptr - buffer));
  if (text.starts_with('-')) {
    out += '-';
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  int exponent = 0;
  const char* first = text.data() + e + 1;
  std::from_chars(*first == '+' ? first + 1 : first, end.ptr, exponent);
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);

  const int point = exponent + 1;  // the digits before the point
  const int count = int(digits.size());
  if (point > 16 || point <= -5) {
    out += digits[0];
    if (count > 1) (out += '.') += digits.substr(1);
    out += 'e' + std::to_string(exponent);
  } else if (point <= 0) {
    out += "0." + std::string(size_t(-point), '0') + digits;
  } else if (point >= count) {
    out += digits + std::string(size_t(point - count), '0') + ".0";
  } else {
    out += digits.substr(0, size_t(point)) + '.' + digits.substr(size_t(point));
  }
}

void append_json(const Json& value, std::string& out) {
  if (value.is_number_float()) return append_number(value.get<double>(), out);
  if (!value.is_structured()) {
    out += dump_json(value);
    return;
  }
  out += value.is_array() ? '[' : '{';
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!first) out += ',';
    first = false;
    if (value.is_object()) (out += dump_json(key)) += ':';
    append_json(item, out);
  }
  out += value.is_array() ? ']' : '}';
}

// "default: X" of a schema that has one, else nothing. A string is quoted but not escaped; that of
// an enum is bare, or JSON where a variant is not a property's.
enum class EnumDefault { bare, json };
std::string default_comment(const Json& schema, EnumDefault as) {
  const Json* value = field(schema, "default");
  if (!value) return "";
  const auto* text = value->get_ptr<const std::string*>();
  if (text && !is_enum(schema)) return "default: \"" + *text + '"';
  if (text && as == EnumDefault::bare) return "default: " + *text;
  std::string out = "default: ";
  append_json(*value, out);
  return out;
}

class Writer {
 public:
  Writer(const Json& root, SchemaStyle style, std::string& out)
      : root_(root), full_(style == SchemaStyle::full), out_(out) {}

  void type(const Json& schema, int indent) {
    if (const Json* variants = array_field(schema, "oneOf")) {
      for (const Json& variant : *variants) {
        (line(indent, "\n") += " | ");
        nullable_type(variant, indent + 3);
        trailing(text_field(variant, "description"), default_comment(variant, EnumDefault::json));
      }
      return;
    }
    if (const Json* types = array_field(schema, "type")) {
      bool any = false;
      for (const Json& name : *types)
        if (const auto* text = name.get_ptr<const std::string*>()) {
          if (any) out_ += " | ";
          any = true;
          listed(schema, *text, indent);
        }
      if (any) return;
    }
    if (const auto* name = text_field(schema, "type")) return named(schema, *name, indent);
    if (full_) return untyped(schema, indent);
    out_ += "any";
  }

 private:
  std::string& line(int indent, const char* before = "") {
    return (out_ += before).append(size_t(indent), ' ');
  }

  void nullable_type(const Json& schema, int indent) {
    const size_t start = out_.size();
    type(schema, indent);
    // "null" anywhere in the text counts, as it does in the reference.
    if (is_nullable(schema) && out_.find("null", start) == out_.npos) out_ += " | null";
  }

  void trailing(const std::string* description, const std::string& default_value) {
    if (description) out_ += " // " + *description;
    if (!default_value.empty()) out_ += (description ? " " : " // ") + default_value;
  }

  // One name of a list of types. The reference prints the bare name.
  void listed(const Json& schema, const std::string& name, int indent) {
    if (name == "integer")
      out_ += "number";
    else if (full_ && (name == "object" || name == "array"))
      named(schema, name, indent);
    else
      out_ += name;
  }

  void named(const Json& schema, const std::string& name, int indent) {
    if (name == "object") {
      object(schema, indent);
    } else if (name == "array") {
      array(schema, indent);
    } else if (name == "string") {
      if (!values(array_field(schema, "enum"), &Json::is_string)) out_ += "string";
    } else if (name == "number" || name == "integer") {
      if (!full_ || !values(array_field(schema, "enum"), &Json::is_number)) out_ += "number";
    } else if (name == "boolean") {
      out_ += "boolean";
    } else {
      out_ += full_ && name == "null" ? "null" : "any";
    }
  }

  // The members that `wanted` takes, as a union. False if there are none.
  bool values(const Json* members, bool (Json::*wanted)() const noexcept) {
    bool any = false;
    if (members)
      for (const Json& member : *members) {
        if (!(member.*wanted)()) continue;
        if (any) out_ += " | ";
        any = true;
        if (member.is_string())
          out_ += '"' + member.get_ref<const std::string&>() + '"';
        else
          append_json(member, out_);
      }
    return any;
  }

  void array(const Json& schema, int indent) {
    const Json* items = field(schema, "items");
    if (!items) {
      out_ += "Array<any>";
      return;
    }
    // The reference has no parentheses; what it calls any[] is ours to write.
    const bool grouped = full_ && array_field(*items, "anyOf");
    if (grouped) out_ += '(';
    type(*items, indent);
    out_ += grouped ? ")[]" : "[]";
  }

  void object(const Json& schema, int indent) {
    if (const auto* text = text_field(schema, "description")) line(indent) += "// " + *text + '\n';
    out_ += "{\n";
    std::unordered_set<std::string_view> required;
    if (const Json* names = array_field(schema, "required"))
      for (const Json& name : *names)
        if (const auto* text = name.get_ptr<const std::string*>()) required.insert(*text);
    if (const Json* properties = field(schema, "properties"); properties && properties->is_object())
      for (const auto& [key, value] : properties->items())
        property(key + (required.contains(key) ? ":" : "?:"), value, indent);
    line(indent) += '}';
  }

  void property(const std::string& name, const Json& value, int indent) {
    const Json* one_of = field(value, "oneOf");
    const auto* description = text_field(value, "description");
    if (const auto* title = text_field(value, "title")) {
      line(indent) += "// " + *title + '\n';
      line(indent) += "//\n";
    }
    if (description && !one_of) line(indent) += "// " + *description + '\n';
    if (const Json* examples = array_field(value, "examples"); examples && !examples->empty()) {
      line(indent) += "// Examples:\n";
      for (const Json& example : *examples)
        if (const auto* text = example.get_ptr<const std::string*>())
          line(indent) += "// - \"" + *text + "\"\n";
    }
    if (one_of && one_of->is_array()) return variants(name, value, *one_of, indent);

    line(indent) += name + ' ';
    nullable_type(value, indent + 4);
    out_ += ',';
    if (!one_of) trailing(nullptr, default_comment(value, EnumDefault::bare));
    out_ += '\n';
  }

  void variants(const std::string& name, const Json& value, const Json& one_of, int indent) {
    const auto* description = text_field(value, "description");
    const auto* first = one_of.empty() ? nullptr : text_field(one_of.front(), "description");
    const bool above = description && !(first && *first == *description);
    if (above) line(indent) += "// " + *description + '\n';
    if (const std::string text = default_comment(value, EnumDefault::bare); !text.empty())
      line(indent) += "// " + text + '\n';
    line(indent) += name + '\n';
    for (size_t i = 0; i < one_of.size(); ++i) {
      const Json& variant = one_of[i];
      line(indent) += " | ";
      nullable_type(variant, indent + 3);
      const auto* own = text_field(variant, "description");
      const bool tell = own && !(i == 0 && above) && !(description && *own == *description);
      trailing(tell ? own : nullptr, default_comment(variant, EnumDefault::bare));
      out_ += '\n';
    }
    line(indent) += ",\n";
  }

  // Schemas without a type, which the reference calls `any`.
  void untyped(const Json& schema, int indent) {
    if (const auto* target = text_field(schema, "$ref")) return reference(*target, indent);
    if (const Json* any_of = array_field(schema, "anyOf"); any_of && !any_of->empty())
      return joined(*any_of, " | ", indent);
    if (const Json* all_of = array_field(schema, "allOf"); all_of && !all_of->empty())
      return joined(*all_of, " & ", indent);
    if (const Json* value = field(schema, "const")) return append_json(*value, out_);
    if (values(array_field(schema, "enum"), &Json::is_primitive)) return;
    if (field(schema, "properties")) return object(schema, indent);
    out_ += "any";
  }

  void joined(const Json& members, const char* separator, int indent) {
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out_ += separator;
      type(members[i], indent);
    }
  }

  void reference(const std::string& target, int indent) {
    const Json* found = resolve(target);
    const bool inside = std::find(open_.begin(), open_.end(), found) != open_.end();
    if (!found || inside || open_.size() == kReferencesDeep || ++followed_ > kReferences) {
      out_ += "any";
      return;
    }
    open_.push_back(found);
    type(*found, indent);
    open_.pop_back();
  }

  // "#/$defs/Row": a JSON pointer into the schema itself.
  const Json* resolve(std::string_view target) const {
    if (!target.starts_with('#')) return nullptr;
    target.remove_prefix(1);
    const Json* at = &root_;
    while (at && !target.empty()) {
      if (target[0] != '/') return nullptr;
      target.remove_prefix(1);
      const size_t end = std::min(target.find('/'), target.size());
      std::string key;
      for (size_t i = 0; i < end; ++i) {
        const bool escape = target[i] == '~' && i + 1 < end;
        key += escape ? (target[++i] == '1' ? '/' : '~') : target[i];
      }
      target.remove_prefix(end);
      at = field(*at, key.c_str());
    }
    return at;
  }

  const Json& root_;
  const bool full_;
  std::string& out_;
  std::vector<const Json*> open_;  // the references we are inside of
  int followed_ = 0;
};

}  // namespace

void append_typescript(const Json& schema, SchemaStyle style, std::string& out) {
  Writer(schema, style, out).type(schema, 0);
}

}  // namespace rose::harmony
