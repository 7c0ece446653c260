#include "api/turn_request.h"
#include "base/check.h"
#include "base/json.h"

namespace rose {

std::string read_text(Fields& fields, const char* name) {
  const Json* content = fields.find(name);
  if (!content) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    fields.wrong(name, kind_of(*content) + ", wanted a string or an array of parts");
    return {};
  }
  std::string joined;
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& value = (*content)[i];
    const std::string at = strf("%s[%zu]", name, i);
    if (value.is_string()) {
      joined += value.get_ref<const std::string&>();
      continue;
    }
    if (!value.is_object()) {
      fields.wrong(at, kind_of(value) + ", wanted a content part");
      return {};
    }
    Fields part(value, fields.path() + at + ".", fields.problem());
    std::string type = "text", text;
    part.read("type", type);
    if (type == "text" || type == "input_text" || type == "output_text" ||
        type == "reasoning_text" || type == "summary_text") {
      if (!part.has("text")) part.wrong("text", "is missing");
      part.read("text", text);
    } else if (type == "refusal") {
      part.read("refusal", text);
    } else {
      part.wrong("type",
                 "parts of type '" + type + "' are not supported: the model reads text only");
    }
    joined += text;
  }
  return joined;
}

}  // namespace rose
