#include "text/chatml_stream.h"

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace rose {

namespace {

constexpr std::string_view kTags[] = {"<think>", "</think>", "<tool_call>", "</tool_call>"};
constexpr size_t kMostOfACall = 1 << 20;  // bytes that wait for the end of a call

// How many bytes at the end of `text` may be the beginning of a tag.
size_t may_be_tag(std::string_view text) {
  const size_t at = text.rfind('<');
  if (at == text.npos) return 0;
  const std::string_view tail = text.substr(at);
  const bool begins = std::any_of(std::begin(kTags), std::end(kTags),
                                  [&](std::string_view tag) { return tag.starts_with(tail); });
  return begins ? tail.size() : 0;
}

}  // namespace

void ChatmlStream::push(int token, std::vector<ChatEvent>& events) {
  const bool thought = inside_ == Inside::thought;
  const std::string_view bytes = tokenizer_.bytes(token);
  if (!tokenizer_.is_special(token)) {
    take(utf8_.push(bytes), events);
  } else if (std::find(std::begin(kTags), std::end(kTags), bytes) != std::end(kTags)) {
    take(utf8_.finish(), events);
    take(bytes, events);
  }
  reasoning_tokens_ += thought || inside_ == Inside::thought;
}

void ChatmlStream::finish(std::vector<ChatEvent>& events) {
  take(utf8_.finish(), events);
  text(std::exchange(held_, {}), events);
  if (inside_ == Inside::call)
    call(events);
  else if (!newlines_.empty() && begun_)
    say(inside_ == Inside::thought ? ChatEvent::Kind::reasoning : ChatEvent::Kind::content,
        std::exchange(newlines_, {}), events);
}

void ChatmlStream::take(std::string_view piece, std::vector<ChatEvent>& events) {
  held_ += piece;
  for (;;) {
    size_t first = held_.npos;
    std::string_view found;
    for (const std::string_view tag : kTags)
      if (const size_t at = held_.find(tag); at < first) {
        first = at;
        found = tag;
      }
    if (first == held_.npos) break;
    text(held_.substr(0, first), events);
    held_.erase(0, first + found.size());
    if (found == "<think>")
      enter(Inside::thought, events);
    else if (found == "<tool_call>")
      enter(Inside::call, events);
    else
      enter(Inside::content, events);
  }
  const size_t wait = may_be_tag(held_);
  text(held_.substr(0, held_.size() - wait), events);
  held_.erase(0, held_.size() - wait);
}

// Text without tags.
void ChatmlStream::text(std::string_view piece, std::vector<ChatEvent>& events) {
  if (inside_ == Inside::call) {
    call_ += piece;
    if (call_.size() > kMostOfACall) enter(Inside::content, events);
    return;
  }
  if (!begun_) piece.remove_prefix(std::min(piece.find_first_not_of('\n'), piece.size()));
  if (piece.empty()) return;
  std::string whole = std::exchange(newlines_, {});
  whole += piece;
  const size_t end = whole.find_last_not_of('\n') + 1;
  newlines_ = whole.substr(end);
  whole.resize(end);
  if (!whole.empty())
    say(inside_ == Inside::thought ? ChatEvent::Kind::reasoning : ChatEvent::Kind::content,
        std::move(whole), events);
}

void ChatmlStream::say(ChatEvent::Kind kind, std::string piece, std::vector<ChatEvent>& events) {
  bool& said = kind == ChatEvent::Kind::reasoning ? said_reasoning_ : said_content_;
  if (!begun_ && said) piece.insert(0, kMessageJoint);
  begun_ = said = true;
  events.push_back({kind, std::move(piece), 0});
}

void ChatmlStream::enter(Inside next, std::vector<ChatEvent>& events) {
  if (inside_ == Inside::call) call(events);
  newlines_.clear();
  begun_ = false;
  inside_ = next;
}

// {"name": …, "arguments": …}; anything else is for the user to see.
void ChatmlStream::call(std::vector<ChatEvent>& events) {
  const std::string text = std::exchange(call_, {});
  auto json = parse_json(text);
  if (!json || !json->is_object() || !json->value("name", Json()).is_string()) {
    begun_ = false;
    if (text.find_first_not_of(" \n") != text.npos) say(ChatEvent::Kind::content, text, events);
    return;
  }
  const Json arguments = json->value("arguments", Json::object());
  events.push_back({ChatEvent::Kind::tool_call, (*json)["name"].get<std::string>(), calls_});
  events.push_back({ChatEvent::Kind::tool_arguments,
                    arguments.is_string() ? arguments.get<std::string>() : dump_json(arguments),
                    calls_++});
}

}  // namespace rose
