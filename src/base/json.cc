#include "base/json.h"

#include "base/check.h"

namespace rose {

Result<Json> parse_json(std::string_view text, int depth_limit) {
  // What is too deep is refused before anything recursive (copy, dump, render) meets it.
  int depth = 0, deepest = 0;
  bool in_string = false, escaped = false;
  for (const char c : text) {
    if (in_string) {
      if (escaped)
        escaped = false;
      else if (c == '\\')
        escaped = true;
      else if (c == '"')
        in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  if (deepest > depth_limit)
    return fail(ErrorKind::invalid,
                strf("JSON is nested %d deep, the limit is %d", deepest, depth_limit));
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 1: what": the reason alone.
    const std::string text_of_error = error.what();
    const size_t reason = text_of_error.find(": ");
    return fail(ErrorKind::invalid,
                strf("not valid JSON at byte %zu: %s", error.byte,
                     text_of_error.substr(reason == std::string::npos ? 0 : reason + 2).c_str()));
  } catch (const Json::exception& error) {  // a number that no double can hold
    return fail(ErrorKind::invalid, strf("not valid JSON: %s", error.what()));
  }
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rose
