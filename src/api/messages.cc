// POST /v1/messages and /v1/messages/count_tokens: Anthropic's API.
#include "api/ids.h"
#include "api/intake.h"
#include "api/json_text.h"
#include "api/message_blocks.h"
#include "api/messages_request.h"
#include "api/routes.h"
#include "api/turn.h"
#include "base/check.h"
#include "base/json.h"

namespace rose {

namespace {

struct MessagesOptions {
  std::string id;  // "msg_…"
  std::string model;
  int prompt_tokens = 0;
  bool stream = false;
  Headers headers = {};
};

std::string usage_text(const Usage& usage) {
  return strf(
      "{\"input_tokens\":%d,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%d,"
      "\"output_tokens\":%d}",
      usage.prompt_tokens - usage.cached_tokens, usage.cached_tokens, usage.completion_tokens);
}

// "stop_reason":…,"stop_sequence":…
std::string ending_text(const Choice& choice) {
  const std::string& reason = choice.finish_reason();
  const bool by_string = !choice.stop_string().empty();
  std::string text = "\"stop_reason\":\"";
  text += reason == "length"       ? "max_tokens"
          : reason == "tool_calls" ? "tool_use"
          : by_string              ? "stop_sequence"
                                   : "end_turn";
  text += "\",\"stop_sequence\":";
  if (by_string)
    append_json_string(text, choice.stop_string());
  else
    text += "null";
  return text;
}

class MessagesAnswer final : public Answer {
 public:
  MessagesAnswer(Exchange exchange, MessagesOptions options)
      : exchange_(std::move(exchange)),
        options_(std::move(options)),
        blocks_([this](std::string_view type, std::string_view fields) { event(type, fields); }) {}

  void accepted(Generation&) override {
    accepted_ = true;
    if (!options_.stream) return;
    exchange_.begin(event_stream_head(options_.headers));
    event("message_start",
          ",\"message\":" + head() + ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null" +
              ",\"usage\":" + usage_text({.prompt_tokens = options_.prompt_tokens}) + "}");
    event("ping", "");
  }
  void deltas(const Generation&, int, std::vector<Delta> deltas) override {
    for (const Delta& delta : deltas) blocks_.add(delta);
  }
  void choice_ended(const Generation&, int) override {}

  void ended(const Generation& generation) override {
    blocks_.close();
    const std::string ending = ending_text(generation.choice(0));
    const std::string usage = usage_text(generation.usage());
    if (!options_.stream)
      return exchange_.respond({.body = head() + ",\"content\":" + dump_json(blocks_.blocks()) +
                                        "," + ending + ",\"usage\":" + usage + "}",
                                .headers = options_.headers});
    event("message_delta", ",\"delta\":{" + ending + "},\"usage\":" + usage);
    event("message_stop", "");
    exchange_.end();
  }

  void failed(const ApiError& error) override {
    if (!accepted_ || !options_.stream)
      return exchange_.respond(error_response(error, exchange_.request().path));
    exchange_.write("event: error\ndata: " + anthropic_error_body(error) + "\n\n");
    exchange_.end();
  }

 private:
  std::string head() const {
    std::string head =
        "{\"id\":\"" + options_.id + "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":";
    append_json_string(head, options_.model);
    return head;
  }
  void event(std::string_view type, std::string_view fields) {
    if (!options_.stream) return;
    std::string text = "event: ";
    text += type;
    text += "\ndata: {\"type\":\"";
    text += type;
    text += '"';
    text += fields;
    exchange_.write(text + "}\n\n");
  }

  Exchange exchange_;
  const MessagesOptions options_;
  MessageBlocks blocks_;
  bool accepted_ = false;
};

void prepare_message(ApiContext& context, const Json& body, Prepared& prepared) {
  TurnRequest request = parse_messages_request(body, context.tokenizer.vocab(), prepared.problem);
  prepared.ignored = request.ignored;
  if (prepared.problem) return;
  prepared.plan = plan_turn(context, request, "messages", prepared.problem);
  if (prepared.problem) return;
  prepared.plan.choice.call_prefix = "toolu_";
  MessagesOptions options = {.id = new_id("msg_", 24),
                             .model = request.model,
                             .prompt_tokens = int(prepared.plan.requests.front().prompt.size()),
                             .stream = request.stream};
  prepared.answer = [options](Exchange exchange, Headers headers) mutable {
    options.headers = std::move(headers);
    return std::make_unique<MessagesAnswer>(std::move(exchange), std::move(options));
  };
}

Json count_tokens(ApiContext& context, const Json& body, Problem& problem) {
  TurnRequest request = parse_messages_request(body, context.tokenizer.vocab(), problem);
  if (problem) return {};
  check_model(context, request.model, problem);
  return {{"input_tokens", render_turn(context, request.prompt, "messages", problem).size()}};
}

}  // namespace

void post_messages(ApiContext& context, Exchange exchange) {
  answer_by_generation(context, std::move(exchange), prepare_message);
}
void post_count_tokens(ApiContext& context, Exchange exchange) {
  answer_by_json(context, std::move(exchange), count_tokens);
}

}  // namespace rose
