#include "text/harmony_stream.h"

#include <algorithm>
#include <utility>

namespace rose::harmony {
EventStream::EventStream(const Tokenizer& tokenizer, const Specials& specials,
                         std::span<const Tool> tools)
    : parser_(tokenizer, specials, Policy::tolerant, Role::assistant) {
  for (const Tool& tool : tools) tools_.push_back(tool.name);
}

void EventStream::push(int token, std::vector<ChatEvent>& events) {
  ++uncounted_;
  (void)parser_.push(token, parts_);  // tolerant: it cannot fail
  take(events);
  if (!messages_.empty() && !messages_.back().ended) count_towards(messages_.back(), uncounted_);
  send(events);
}

void EventStream::finish(std::vector<ChatEvent>& events) {
  (void)parser_.finish(parts_);
  take(events);
  finished_ = true;
  send(events);
}

void EventStream::take(std::vector<ChatEvent>& events) {
  for (Part& part : parts_) switch (part.kind) {
      case Part::Kind::begin: messages_.push_back(filed(part.header)); break;
      case Part::Kind::text:
        any_content_ |= messages_.back().field == Field::content;
        messages_.back().text += part.text;
        break;
      case Part::Kind::end: {
        // The token that ended it may be the first of the next header.
        const bool next = parser_.state() == Parser::State::header;
        count_towards(messages_.back(), std::max(0, uncounted_ - int(next)));
        messages_.back().ended = true;
        send(events);
        break;
      }
    }
  parts_.clear();
}

EventStream::Message EventStream::filed(const Header& header) const {
  const std::string_view recipient = header.recipient ? std::string_view(*header.recipient) : "";
  std::string tool = tool_named(recipient);
  if (!tool.empty()) return {.field = Field::call, .tool = std::move(tool)};
  if (header.channel == "analysis") return {.field = Field::reasoning};
  if (header.role != Role::assistant) return {.field = Field::undecided};
  if (header.channel == "final") return {.field = Field::content};
  const bool to_no_tool = recipient.empty() || recipient == "all" || role_named(recipient);
  if (header.channel == "commentary" && to_no_tool) return {.field = Field::content};
  return {.field = Field::undecided};
}

bool EventStream::listed(std::string_view name) const {
  return std::find(tools_.begin(), tools_.end(), name) != tools_.end();
}

// The name of the tool that is called; empty: none is.
std::string EventStream::tool_named(std::string_view recipient) const {
  const bool function = recipient.starts_with(kFunctions);
  if (function) recipient.remove_prefix(kFunctions.size());
  if (recipient.empty() || listed(recipient)) return std::string(recipient);
  for (const std::string_view type : {"json", "code"})  // a content type glued to the name
    if (recipient.ends_with(type) && listed(recipient.substr(0, recipient.size() - type.size())))
      return std::string(recipient.substr(0, recipient.size() - type.size()));
  return function ? std::string(recipient) : "";
}

void EventStream::count_towards(Message& message, int tokens) {
  message.tokens += tokens;
  uncounted_ -= tokens;
}

// Sends what is certain, in order.
void EventStream::send(std::vector<ChatEvent>& events) {
  while (!messages_.empty()) {
    Message& first = messages_.front();
    if (first.field == Field::undecided) {
      if (any_content_)
        first.field = Field::reasoning;
      else if (finished_)
        first.field = Field::content;
      else
        return;
    }
    send(first, events);
    if (!first.ended) return;
    messages_.pop_front();
  }
}

void EventStream::send(Message& message, std::vector<ChatEvent>& events) {
  const int tokens = std::exchange(message.tokens, 0);
  std::string text = std::exchange(message.text, {});
  if (message.field == Field::call) {
    if (message.index < 0) {
      message.index = calls_++;
      events.push_back({ChatEvent::Kind::tool_call, message.tool, message.index});
    }
    if (!text.empty())
      events.push_back({ChatEvent::Kind::tool_arguments, std::move(text), message.index});
    return;
  }
  const bool reasoning = message.field == Field::reasoning;
  if (reasoning) reasoning_tokens_ += tokens;
  if (text.empty()) return;
  bool& sent = reasoning ? sent_reasoning_ : sent_content_;
  if (!message.begun && sent) text.insert(0, kMessageJoint);
  message.begun = sent = true;
  events.push_back(
      {reasoning ? ChatEvent::Kind::reasoning : ChatEvent::Kind::content, std::move(text), 0});
}

}  // namespace rose::harmony
