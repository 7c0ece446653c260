#include "api/message_blocks.h"

#include "api/answer_json.h"
#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

// Clients send thinking back with the signature they got; here nothing needs to be proven.
constexpr const char* kSignature = "rose";

}  // namespace

MessageBlocks::MessageBlocks(Emit emit)
    : emit_(std::move(emit)), blocks_(std::make_unique<Json>(Json::array())) {}
MessageBlocks::~MessageBlocks() = default;

const Json& MessageBlocks::blocks() const { return *blocks_; }

void MessageBlocks::add(const Delta& delta) {
  switch (delta.kind) {
    case ChatEvent::Kind::reasoning:
      if (open_ != Kind::thinking) open(Kind::thinking, delta);
      return add_text(delta);
    case ChatEvent::Kind::content:
      if (open_ != Kind::text) open(Kind::text, delta);
      return add_text(delta);
    case ChatEvent::Kind::tool_call: return open(Kind::tool, delta);
    case ChatEvent::Kind::tool_arguments: return add_text(delta);
  }
}

void MessageBlocks::open(Kind kind, const Delta& delta) {
  close();
  open_ = kind;
  text_.clear();
  joint_ = std::exchange(seen_[int(kind)], true) && kind != Kind::tool ? kMessageJoint.size() : 0;
  if (kind == Kind::thinking)
    blocks_->push_back({{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
  else if (kind == Kind::text)
    blocks_->push_back({{"type", "text"}, {"text", ""}});
  else
    blocks_->push_back({{"type", "tool_use"},
                        {"id", delta.call_id},
                        {"name", delta.text},
                        {"input", Json::object()}});
  emit_("content_block_start", strf(",\"index\":%zu,\"content_block\":", blocks_->size() - 1) +
                                   dump_json(blocks_->back()));
}

void MessageBlocks::add_text(const Delta& delta) {
  std::string_view text = delta.text;
  const size_t skip = std::min(joint_, text.size());
  joint_ -= skip;
  text.remove_prefix(skip);
  if (text.empty()) return;
  text_ += text;
  const bool thinking = open_ == Kind::thinking, tool = open_ == Kind::tool;
  std::string part = "{";
  append_field(part, "type",
               thinking ? "thinking_delta"
               : tool   ? "input_json_delta"
                        : "text_delta");
  append_field(part, thinking ? "thinking" : tool ? "partial_json" : "text", text);
  emit_delta(part + "}");
}

void MessageBlocks::emit_delta(const std::string& delta) {
  emit_("content_block_delta", strf(",\"index\":%zu,\"delta\":", blocks_->size() - 1) + delta);
}

void MessageBlocks::close() {
  if (open_ == Kind::none) return;
  Json& block = blocks_->back();
  if (open_ == Kind::thinking) {
    block["thinking"] = text_;
    block["signature"] = kSignature;
    emit_delta(std::string(R"({"type":"signature_delta","signature":")") + kSignature + "\"}");
  } else if (open_ == Kind::text) {
    block["text"] = text_;
  } else {
    // What is no JSON object cannot be shown as one: it is told as text within one.
    auto input = parse_json(text_);
    if (input && input->is_object())
      block["input"] = std::move(*input);
    else if (!text_.empty())
      block["input"] = {{"raw_arguments", text_}};
  }
  emit_("content_block_stop", strf(",\"index\":%zu", blocks_->size() - 1));
  open_ = Kind::none;
}

}  // namespace rose
