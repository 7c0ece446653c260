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

void MessageBlocks::begin(Kind kind, const Delta& delta) {
  if (kind == Kind::reasoning)
    blocks_->push_back({{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
  else if (kind == Kind::content)
    blocks_->push_back({{"type", "text"}, {"text", ""}});
  else
    blocks_->push_back({{"type", "tool_use"},
                        {"id", delta.call_id},
                        {"name", delta.text},
                        {"input", Json::object()}});
  emit_("content_block_start", strf(",\"index\":%zu,\"content_block\":", blocks_->size() - 1) +
                                   dump_json(blocks_->back()));
}

void MessageBlocks::grow(std::string_view text, const Delta&) {
  const bool thinking = open() == Kind::reasoning, tool = open() == Kind::call;
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

void MessageBlocks::end(bool) {
  Json& block = blocks_->back();
  if (open() == Kind::reasoning) {
    block["thinking"] = text();
    block["signature"] = kSignature;
    emit_delta(std::string(R"({"type":"signature_delta","signature":")") + kSignature + "\"}");
  } else if (open() == Kind::content) {
    block["text"] = text();
  } else {
    // What is no JSON object cannot be shown as one: it is told as text within one.
    auto input = parse_json(text());
    if (input && input->is_object())
      block["input"] = std::move(*input);
    else if (!text().empty())
      block["input"] = {{"raw_arguments", text()}};
  }
  emit_("content_block_stop", strf(",\"index\":%zu", blocks_->size() - 1));
}

}  // namespace rose
