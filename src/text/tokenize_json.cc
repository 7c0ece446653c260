#include "text/tokenize_json.h"

#include "base/check.h"
#include "base/json.h"
#include "text/utf8.h"

namespace rose {

namespace {
Result<Json> encode_line(const Tokenizer& tokenizer, const Json& line) {
  if (!line["text"].is_string()) return fail(ErrorKind::invalid, "'text' is no string");
  const Json special = line.value("special", Json(false));
  if (!special.is_boolean()) return fail(ErrorKind::invalid, "'special' is neither true nor false");
  const std::string& text = line["text"].get_ref<const std::string&>();
  return Json{{"tokens", special ? tokenizer.encode_special(text) : tokenizer.encode(text)}};
}

Result<Json> decode_line(const Tokenizer& tokenizer, const Json& line) {
  if (!line["tokens"].is_array()) return fail(ErrorKind::invalid, "'tokens' is no array");
  std::string bytes;
  for (const Json& token : line["tokens"]) {
    if (!token.is_number_integer())
      return fail(ErrorKind::invalid, "'tokens' has " + dump_json(token) + ", no whole number");
    const bool in_range = token >= 0 && token < tokenizer.vocab();
    const std::string_view found =
        in_range ? tokenizer.bytes(token.get<int>()) : std::string_view();
    if (found.empty())
      return fail(ErrorKind::invalid, "Invalid token for decoding: " + dump_json(token));
    bytes += found;
  }
  Utf8Stream stream;
  std::string text = stream.push(bytes);
  text += stream.finish();
  Json out = {{"text", text}};
  if (text != bytes) {
    out["bytes"] = Json::array();
    for (const char byte : bytes) out["bytes"].push_back(int(uint8_t(byte)));
  }
  return out;
}
}  // namespace

Result<Json> tokenize_json(const Tokenizer& tokenizer, const Json& line) {
  if (!line.is_object()) return fail(ErrorKind::invalid, "not a JSON object");
  if (line.contains("text")) return encode_line(tokenizer, line);
  if (line.contains("tokens")) return decode_line(tokenizer, line);
  return fail(ErrorKind::invalid, "there is neither 'text' nor 'tokens' in it");
}

}  // namespace rose
