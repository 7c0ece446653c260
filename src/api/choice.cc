#include "api/choice.h"

#include <algorithm>

#include "api/ids.h"

namespace rose {

namespace {

// Deltas of one update that continue each other become one.
void append(std::vector<Delta>& out, Delta delta) {
  if (!out.empty() && out.back().kind == delta.kind && delta.kind != ChatEvent::Kind::tool_call &&
      out.back().tool_index == delta.tool_index) {
    out.back().text += delta.text;
    std::move(delta.tokens.begin(), delta.tokens.end(), std::back_inserter(out.back().tokens));
  } else {
    out.push_back(std::move(delta));
  }
}

}  // namespace

Choice::Choice(std::unique_ptr<StreamParser> parser, const Tokenizer& tokenizer,
               ChoiceOptions options)
    : parser_(std::move(parser)),
      tokenizer_(&tokenizer),
      options_(std::move(options)),
      scanner_(options_.stop, options_.include_stop) {}

void Choice::push(const GeneratedToken& token, std::vector<Delta>& out) {
  if (finished()) return;
  ++tokens_;
  if (options_.logprobs) recent_.push_back(token);
  parser_->push(token.token, events_);
  take_events(out);
  if (finished()) return;
  const std::vector<int>& stops = options_.stop_tokens;
  stop_token_ =
      std::find(stops.begin(), stops.end(), token.token) != stops.end() ? token.token : -1;
}

void Choice::finish(Finish finish, std::vector<Delta>& out) {
  if (finished()) return;
  parser_->finish(events_);
  take_events(out);
  if (finished()) return;
  emit_content(scanner_.finish(), out);
  if (finish != Finish::stop) stop_token_ = -1;
  switch (finish) {
    case Finish::length: finish_reason_ = "length"; break;
    case Finish::cancelled: finish_reason_ = "abort"; break;
    case Finish::failed: finish_reason_ = "error"; break;
    case Finish::none:
    case Finish::stop: finish_reason_ = tool_calls_ > 0 ? "tool_calls" : "stop";
  }
}

void Choice::take_events(std::vector<Delta>& out) {
  for (ChatEvent& event : events_) {
    if (finished()) break;
    switch (event.kind) {
      case ChatEvent::Kind::content: take_content(event.text, out); continue;
      case ChatEvent::Kind::reasoning:
        emit_content(scanner_.finish(), out);  // a stop string reaches over no other message
        if (options_.include_reasoning)
          append(out, {.kind = event.kind, .text = std::move(event.text)});
        break;
      case ChatEvent::Kind::tool_call:
        emit_content(scanner_.finish(), out);
        if (options_.one_call && tool_calls_ == 1) {
          finish_reason_ = "tool_calls";
          break;
        }
        ++tool_calls_;
        append(out, {.kind = event.kind,
                     .text = std::move(event.text),
                     .tool_index = event.tool_index,
                     .call_id = new_id(options_.call_prefix, 24)});
        break;
      case ChatEvent::Kind::tool_arguments:
        append(out,
               {.kind = event.kind, .text = std::move(event.text), .tool_index = event.tool_index});
        break;
    }
    recent_.clear();  // they were not content
  }
  events_.clear();
}

void Choice::take_content(std::string_view text, std::vector<Delta>& out) {
  content_bytes_ += int64_t(text.size());
  if (options_.logprobs) attribute_tokens();
  const bool may_stop = tokens_ >= options_.given + std::max(options_.min_tokens, 1);
  emit_content(may_stop ? scanner_.push(text) : std::string(text), out);
  if (const std::string* stop = scanner_.matched()) {
    finish_reason_ = "stop";
    stop_string_ = *stop;
  }
}

// The parser says which text is content, not from which tokens: header tokens come before the first of
// them, a character may need several, and one token may end a character and begin the next. So count
// bytes: of the tokens since the last event, the last ones that make up what is not yet accounted for.
// A special token is no text, and before it lies a header.
void Choice::attribute_tokens() {
  int64_t missing = content_bytes_ - attributed_bytes_;
  auto first = recent_.end();
  auto last = recent_.end();
  while (first != recent_.begin() && missing > 0) {
    const int token = std::prev(first)->token;
    if (tokenizer_->is_special(token)) {
      if (first != last) break;
      last = std::prev(last);
    } else {
      missing -= int64_t(tokenizer_->bytes(token).size());
    }
    --first;
  }
  for (auto it = first; it != last; ++it) {
    unsent_.push_back({std::move(*it), attributed_bytes_});
    attributed_bytes_ += int64_t(tokenizer_->bytes(unsent_.back().token.token).size());
  }
  attributed_bytes_ = std::max(attributed_bytes_, content_bytes_);
  recent_.clear();
}

void Choice::emit_content(std::string text, std::vector<Delta>& out) {
  if (text.empty()) return;
  emitted_bytes_ += int64_t(text.size());
  Delta delta{.kind = ChatEvent::Kind::content, .text = std::move(text)};
  while (!unsent_.empty() && unsent_.front().begin < emitted_bytes_) {
    delta.tokens.push_back(std::move(unsent_.front().token));
    unsent_.pop_front();
  }
  append(out, std::move(delta));
}

}  // namespace rose
