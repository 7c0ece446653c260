#include "api/output_fields.h"

#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

using Kind = OutputFormat::Kind;

constexpr size_t kMaxChoiceTexts = 10'000;

class Reader {
 public:
  Reader(Fields& fields, OutputFields& into) : fields_(fields), into_(into) {}

  // Each field in its own way; a second one is refused.
  void read() {
    response_format();
    if (const Json* outer = fields_.object("structured_outputs")) {
      Fields inner(*outer, fields_.path() + "structured_outputs.", fields_.problem());
      read_one(inner, "json", &Reader::schema);
      read_one(inner, "json_object", &Reader::object);
      read_one(inner, "regex", &Reader::regex);
      read_one(inner, "choice", &Reader::choice);
      read_one(inner, "grammar", &Reader::grammar);
      if (inner.has("structural_tag")) inner.wrong("structural_tag", "is not supported");
      if (into_.field.empty())
        fields_.wrong("structured_outputs",
                      "wanted one of json, json_object, regex, choice, grammar");
    }
    read_one(fields_, "guided_json", &Reader::schema);
    read_one(fields_, "guided_regex", &Reader::regex);
    read_one(fields_, "guided_choice", &Reader::choice);
    read_one(fields_, "guided_grammar", &Reader::grammar);
    read_one(fields_, "json_schema", &Reader::schema);
    read_one(fields_, "regex", &Reader::regex);
    read_one(fields_, "ebnf", &Reader::grammar);
    read_one(fields_, "grammar", &Reader::grammar);
  }

  // {"type": "text" | "json_object" | "json_schema", …}; the schema within "json_schema", or flat.
  void format_object(Fields& fields, bool nested) {
    std::string type;
    fields.read("type", type);
    if (type == "text") return;
    if (type != "json_object" && type != "json_schema")
      return fields.wrong(
          "type",
          "'" + type.substr(0, 80) + "' is not supported, wanted text, json_object or json_schema");
    const std::string path = fields.path().substr(0, fields.path().size() - 1);
    if (!into_.field.empty())
      return fields_.problem().add(
          {.message = path + ": only one of this and " + into_.field + " is possible",
           .param = path});
    into_.field = path;
    if (type == "json_object") return object(fields, "type", true);
    const Json* named = nested ? fields.object("json_schema") : nullptr;
    if (nested && !named) return fields.wrong("json_schema", "is missing");
    Fields inner =
        nested ? Fields(*named, fields.path() + "json_schema.", fields.problem()) : fields;
    OutputFormat& format = into_.format;
    inner.read("name", format.name);
    inner.read("description", format.description);
    bool strict = true;  // without it a schema is a hint; it is kept all the same
    inner.read("strict", strict);
    into_.field = inner.path() + "schema";
    if (!format.name.empty() && !decent_name(format.name))
      return inner.wrong("name", "wanted 1 to 64 of A-Z, a-z, 0-9, '_', '-'");
    const Json* schema_value = inner.object("schema");
    if (!schema_value) return object(inner, "schema", true);
    schema(inner, "schema", *schema_value);
  }

 private:
  using Way = void (Reader::*)(Fields&, const char*, const Json&);

  void read_one(Fields& fields, const char* name, Way way) {
    const Json* value = fields.find(name);
    if (!value || *value == "" || *value == false) return;
    if (!set_field(fields, name)) return;
    (this->*way)(fields, name, *value);
  }

  bool set_field(Fields& fields, const char* name) {
    if (!into_.field.empty()) {
      fields.wrong(name, "only one of this and " + into_.field + " is possible");
      return false;
    }
    into_.field = fields.path() + name;
    return true;
  }

  void response_format() {
    const Json* outer = fields_.object("response_format");
    if (!outer) return;
    Fields fields(*outer, fields_.path() + "response_format.", fields_.problem());
    format_object(fields, true);
  }

  static bool decent_name(const std::string& name) {
    return name.size() <= 64 &&
           name.find_first_not_of(
               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") ==
               std::string::npos;
  }

  // An object, or the text of one.
  void schema(Fields& fields, const char* name, const Json& value) {
    OutputFormat& format = into_.format;
    format.kind = Kind::json_schema;
    if (format.name.empty()) format.name = "response";
    if (!value.is_string()) {
      if (!value.is_object()) return fields.wrong(name, kind_of(value) + ", wanted a JSON schema");
      format.schema = std::make_shared<const Json>(value);
      return;
    }
    auto parsed = parse_json(value.get_ref<const std::string&>());
    if (!parsed) return fields.wrong(name, parsed.error().message);
    format.schema = std::make_shared<const Json>(std::move(*parsed));
  }

  void object(Fields& fields, const char* name, const Json& value) {
    if (value != true) return fields.wrong(name, kind_of(value) + ", wanted true");
    into_.format.kind = Kind::json_object;
  }

  void regex(Fields& fields, const char* name, const Json&) {
    into_.format.kind = Kind::regex;
    fields.read(name, into_.format.text);
  }

  void grammar(Fields& fields, const char* name, const Json&) {
    into_.format.kind = Kind::ebnf;
    fields.read(name, into_.format.text);
  }

  void choice(Fields& fields, const char* name, const Json& value) {
    into_.format.kind = Kind::choice;
    if (!value.is_array() || value.empty() || value.size() > kMaxChoiceTexts)
      return fields.wrong(name, strf("wanted a list of 1 to %zu strings", kMaxChoiceTexts));
    for (const Json& text : value) {
      if (!text.is_string())
        return fields.wrong(name, "has " + kind_of(text) + ", wanted strings only");
      into_.format.choices.push_back(text.get<std::string>());
    }
  }

  Fields& fields_;
  OutputFields& into_;
};

}  // namespace

void read_output_fields(Fields& fields, OutputFields& into) { Reader(fields, into).read(); }

void read_text_format(Fields& format, OutputFields& into) {
  Reader(format, into).format_object(format, false);
}

}  // namespace rose
