#include "api/response_items.h"

#include "api/answer_json.h"
#include "api/ids.h"
#include "api/json_text.h"
#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

// Not a cipher: the client may read its own model's reasoning. It says whose form this is.
constexpr std::string_view kSeal = "rose:";

std::string text_part(const char* type, std::string_view text, std::string_view logprobs) {
  std::string part = "{";
  append_field(part, "type", type);
  append_field(part, "text", text);
  if (std::string_view(type) == "output_text") {
    part += ",\"annotations\":[],\"logprobs\":[";
    part += logprobs;
    part += ']';
  }
  return part + "}";
}

}  // namespace

std::string seal_reasoning(std::string_view text) { return std::string(kSeal) + std::string(text); }
std::string unseal_reasoning(std::string_view sealed) {
  return sealed.starts_with(kSeal) ? std::string(sealed.substr(kSeal.size())) : "";
}

ResponseItems::ResponseItems(const Tokenizer& tokenizer, const Options& options, Emit emit)
    : tokenizer_(tokenizer),
      options_(options),
      emit_(std::move(emit)),
      items_(std::make_unique<Json>(Json::array())) {}
ResponseItems::~ResponseItems() = default;

const Json& ResponseItems::items() const { return *items_; }

std::string ResponseItems::where() const {
  std::string where = ",\"item_id\":";
  append_json_string(where, id_);
  return where + strf(",\"output_index\":%zu", items_->size() - 1);
}

void ResponseItems::emit_item(const char* type) {
  emit(type,
       strf(",\"output_index\":%zu,\"item\":", items_->size() - 1) + dump_json(items_->back()));
}

void ResponseItems::begin(Kind kind, const Delta& delta) {
  logprobs_.clear();
  custom_ = kind == Kind::call && options_.custom_tools.contains(delta.text);
  unwrap_ = {};
  input_.clear();
  switch (kind) {
    case Kind::reasoning:
      id_ = new_id("rs_", 32);
      items_->push_back({{"id", id_},
                         {"type", "reasoning"},
                         {"summary", Json::array()},
                         {"content", Json::array()},
                         {"encrypted_content", nullptr},
                         {"status", "in_progress"}});
      break;
    case Kind::content:
      id_ = new_id("msg_", 32);
      items_->push_back({{"id", id_},
                         {"type", "message"},
                         {"status", "in_progress"},
                         {"role", "assistant"},
                         {"content", Json::array()}});
      break;
    default:
      id_ = new_id(custom_ ? "ctc_" : "fc_", 32);
      items_->push_back({{"id", id_},
                         {"type", custom_ ? "custom_tool_call" : "function_call"},
                         {"status", "in_progress"},
                         {"call_id", delta.call_id},
                         {"name", delta.text},
                         {custom_ ? "input" : "arguments", ""}});
  }
  emit_item("response.output_item.added");
  if (kind == Kind::call) return;
  const char* type = kind == Kind::reasoning ? "reasoning_text" : "output_text";
  emit("response.content_part.added",
       where() + ",\"content_index\":0,\"part\":" + text_part(type, "", ""));
}

void ResponseItems::grow(std::string_view text, const Delta& delta) {
  if (custom_) return grow_input(unwrap_.push(text));
  std::string fields = where();
  if (open() != Kind::call) fields += ",\"content_index\":0";
  append_field(fields, "delta", text);
  switch (open()) {
    case Kind::reasoning: return emit("response.reasoning_text.delta", fields);
    case Kind::call: return emit("response.function_call_arguments.delta", fields);
    default: break;
  }
  std::string logprobs;
  if (options_.logprobs) append_logprobs(logprobs, tokenizer_, delta.tokens);
  if (!logprobs.empty()) logprobs_ += (logprobs_.empty() ? "" : ",") + logprobs;
  emit("response.output_text.delta", fields + ",\"logprobs\":[" + logprobs + "]");
}

void ResponseItems::grow_input(std::string_view text) {
  if (text.empty()) return;
  input_ += text;
  std::string fields = where();
  append_field(fields, "delta", text);
  emit("response.custom_tool_call_input.delta", fields);
}

void ResponseItems::end(bool complete) {
  Json& item = items_->back();
  item["status"] = complete ? "completed" : "incomplete";
  if (open() == Kind::call)
    end_call(item);
  else
    end_text(item);
  emit_item("response.output_item.done");
}

void ResponseItems::end_call(Json& item) {
  if (custom_) grow_input(unwrap_.finish());
  const std::string& said = custom_ ? input_ : text();
  const char* field = custom_ ? "input" : "arguments";
  item[field] = said;
  std::string fields = where();
  if (!custom_) append_field(fields, "name", item["name"].get_ref<const std::string&>());
  append_field(fields, field, said);
  emit(custom_ ? "response.custom_tool_call_input.done" : "response.function_call_arguments.done",
       fields);
}

void ResponseItems::end_text(Json& item) {
  const bool reasoning = open() == Kind::reasoning;
  const std::string part =
      text_part(reasoning ? "reasoning_text" : "output_text", text(), logprobs_);
  std::string fields = where() + ",\"content_index\":0";
  append_field(fields, "text", text());
  if (!reasoning) fields += ",\"logprobs\":[" + logprobs_ + "]";
  emit(reasoning ? "response.reasoning_text.done" : "response.output_text.done", fields);
  emit("response.content_part.done", where() + ",\"content_index\":0,\"part\":" + part);
  item["content"].push_back(parse_json(part).value_or(Json::object()));
  if (reasoning && options_.encrypted_reasoning) item["encrypted_content"] = seal_reasoning(text());
}

}  // namespace rose
