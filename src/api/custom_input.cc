#include "api/custom_input.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "text/utf8.h"

namespace rose {

namespace {

constexpr std::string_view kOpening[] = {"{", "\"input\"", ":", "\""};
constexpr std::string_view kSpace = " \t\r\n";

bool is_one_of(char c, std::string_view set) { return set.find(c) != set.npos; }

// How long the escape is that `text` begins with; more than it has: its end has not come.
size_t escape_length(std::string_view text) {
  if (text.size() < 2 || text[1] != 'u') return 2;
  if (text.size() < 6) return 6;
  // The first half of a character that takes two?
  const bool high = is_one_of(text[2], "dD") && is_one_of(text[3], "89abAB");
  if (!high || !std::string_view("\\u").starts_with(text.substr(6, 2))) return 6;
  if (text.size() < 12) return 12;
  return is_one_of(text[8], "dD") && is_one_of(text[9], "cdefCDEF") ? 12 : 6;
}

}  // namespace

std::shared_ptr<const Json> custom_input_schema(const std::string& pattern) {
  Json input = {{"type", "string"}};
  if (!pattern.empty()) {
    input["description"] = "Must match the regular expression " + pattern;
    input["pattern"] = "^(?:" + pattern + ")$";
  }
  return std::make_shared<const Json>(Json{{"type", "object"},
                                           {"properties", {{"input", std::move(input)}}},
                                           {"required", Json::array({"input"})},
                                           {"additionalProperties", false}});
}

std::string wrap_custom_input(const std::string& text) { return dump_json({{"input", text}}); }

// Looks for the text's beginning in what has come.
void CustomInput::open() {
  size_t at = 0;
  for (const std::string_view wanted : kOpening) {
    at = std::min(pending_.find_first_not_of(kSpace, at), pending_.size());
    const std::string_view found = std::string_view(pending_).substr(at, wanted.size());
    if (found != wanted.substr(0, found.size())) {
      state_ = State::plain;
      return;
    }
    if (found.size() < wanted.size()) return;  // so far it is one
    at += wanted.size();
  }
  pending_.erase(0, at);
  state_ = State::inside;
}

std::string CustomInput::push(std::string_view piece) {
  std::string out;
  if (state_ == State::behind) return out;
  pending_ += piece;
  if (state_ == State::opening) open();
  if (state_ == State::plain) out = std::exchange(pending_, {});
  while (state_ == State::inside && !pending_.empty()) {
    const size_t plain = std::min(pending_.find_first_of("\\\""), pending_.size());
    out.append(pending_, 0, plain);
    pending_.erase(0, plain);
    if (pending_.empty()) break;
    if (pending_[0] == '"') {
      state_ = State::behind;
      pending_.clear();
    } else if (const size_t length = escape_length(pending_); length <= pending_.size()) {
      const auto text = parse_json('"' + pending_.substr(0, length) + '"');
      out += text ? text->get_ref<const std::string&>() : std::string(kReplacement);
      pending_.erase(0, length);
    } else {
      break;
    }
  }
  return out;
}

std::string CustomInput::finish() {
  std::string rest = state_ == State::opening ? std::exchange(pending_, {}) : "";
  state_ = State::behind;
  return rest;
}

}  // namespace rose
