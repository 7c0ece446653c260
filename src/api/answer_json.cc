#include "api/answer_json.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/json_text.h"
#include "base/check.h"

namespace rose {

namespace {

void append_logprob(std::string& out, const Tokenizer& tokenizer, int token, float logprob) {
  const std::string_view bytes = tokenizer.bytes(token);
  out += "{\"token\":";
  append_json_string(out, bytes);
  out += ",\"logprob\":" + logprob_text(logprob) + ",\"bytes\":[";
  for (size_t i = 0; i < bytes.size(); ++i)
    out += (i ? "," : "") + std::to_string(int((unsigned char)bytes[i]));
  out += ']';
}

}  // namespace

void append_field(std::string& out, std::string_view name, std::string_view text) {
  if (!out.ends_with('{')) out += ',';
  out += '"';
  out += name;
  out += "\":";
  append_json_string(out, text);
}

std::string logprob_text(float logprob) {
  if (std::isnan(logprob)) return "null";
  return strf("%.7g", double(std::max(logprob, -9999.0f)));
}

void append_logprobs(std::string& out, const Tokenizer& tokenizer,
                     const std::vector<GeneratedToken>& tokens) {
  bool first = true;
  for (const GeneratedToken& token : tokens) {
    if (!std::exchange(first, false)) out += ',';
    append_logprob(out, tokenizer, token.token, token.logprob);
    out += ",\"top_logprobs\":[";
    for (size_t i = 0; i < token.top.size(); ++i) {
      if (i) out += ',';
      append_logprob(out, tokenizer, token.top[i].token, token.top[i].logprob);
      out += '}';
    }
    out += "]}";
  }
}

std::string usage_json(const Usage& usage) {
  return strf(
      "{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d,"
      "\"prompt_tokens_details\":{\"cached_tokens\":%d},"
      "\"completion_tokens_details\":{\"reasoning_tokens\":%d}}",
      usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens + usage.completion_tokens,
      usage.cached_tokens, usage.reasoning_tokens);
}

std::string ending_json(const Choice& choice) {
  std::string ending;
  append_json_string(ending, choice.finish_reason());
  ending += ",\"stop_reason\":";
  if (!choice.stop_string().empty())
    append_json_string(ending, choice.stop_string());
  else if (choice.stop_token() >= 0)
    ending += std::to_string(choice.stop_token());
  else
    ending += "null";
  return ending;
}

}  // namespace rose
