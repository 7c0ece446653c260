#include "api/responses_answer.h"

#include <ctime>

#include "api/intake.h"
#include "base/check.h"
#include "base/json.h"
#include "base/log.h"

namespace rose {

namespace {

Json usage_object(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

// What differs between the states of a response.
struct State {
  const char* status;
  Json error = nullptr;
  Json incomplete_details = nullptr;
  Json output = Json::array();
  Json usage = nullptr;
};

Json response_object(const ResponsesAnswerOptions& options, State state) {
  const std::string_view status = state.status;
  const bool ended = status != "queued" && status != "in_progress";
  Json response = {{"id", options.id},
                   {"object", "response"},
                   {"created_at", options.created},
                   {"completed_at", status == "completed" ? Json(std::time(nullptr)) : Json()},
                   {"status", state.status},
                   {"error", std::move(state.error)},
                   {"incomplete_details", std::move(state.incomplete_details)},
                   {"model", options.model},
                   {"output", std::move(state.output)},
                   {"usage", ended ? std::move(state.usage) : Json()}};
  response.update(*options.echo);
  return response;
}

StoredResponse stored(const ResponsesAnswerOptions& options, std::string response, bool running) {
  return {.id = options.id,
          .created = options.created,
          .previous = options.previous,
          .owner = options.owner,
          .response = std::move(response),
          .input_items = options.input_items,
          .running = running};
}

class ResponsesAnswer final : public Answer {
 public:
  ResponsesAnswer(ApiContext& context, Exchange exchange, ResponsesAnswerOptions options)
      : context_(context),
        exchange_(std::move(exchange)),
        options_(std::move(options)),
        items_(context.tokenizer, options_.items,
               [this](std::string_view type, std::string_view fields) { event(type, fields); }) {}

  void accepted(Generation& generation) override {
    accepted_ = true;
    if (options_.background)
      context_.background.add(options_.id,
                              [weak = generation.weak_from_this()](const ApiError& why) {
                                const auto generation = weak.lock();
                                if (!generation) return;
                                generation->post([generation, why] { generation->stop(why); });
                              });
    if (options_.stream) {
      if (options_.background) context_.events.begin(options_.id);
      exchange_.begin(event_stream_head(options_.headers));
      const std::string begun = ",\"response\":" + begun_response(options_, "in_progress");
      event("response.created", begun);
      event("response.in_progress", begun);
    } else if (options_.background) {
      exchange_.respond({.body = begun_response(options_, "queued"), .headers = options_.headers});
    }
  }

  void deltas(const Generation&, int, std::vector<Delta> deltas) override {
    for (const Delta& delta : deltas) items_.add(delta);
  }
  void choice_ended(const Generation&, int) override {}

  void ended(const Generation& generation) override {
    const bool complete = generation.choice(0).finish_reason() != "length";
    items_.close(complete);
    finish({.status = complete ? "completed" : "incomplete",
            .incomplete_details = complete ? Json() : Json{{"reason", "max_output_tokens"}},
            .output = items_.items(),
            .usage = usage_object(generation.usage())},
           complete ? "response.completed" : "response.incomplete");
  }

  void failed(const ApiError& error) override {
    if (!accepted_) {  // nothing of it remains
      if (options_.background)
        exchange_.offload([&context = context_, options = options_] {
          (void)context.responses->remove(options.id, options.owner);
        });
      return exchange_.respond(error_response(error));
    }
    items_.close(false);
    State state{.status = error.status == 499 ? "cancelled" : "failed", .output = items_.items()};
    if (error.status != 499)
      state.error = {{"code", error.status == 429 ? "rate_limit_exceeded" : "server_error"},
                     {"message", error.message}};
    error_ = error;
    finish(std::move(state), "response.failed");
  }

 private:
  void event(std::string_view type, std::string_view fields) {
    if (!options_.stream) return;
    const std::string text = event_text(type, fields);
    if (options_.background) context_.events.append(options_.id, text);
    exchange_.write(text);
  }
  std::string event_text(std::string_view type, std::string_view fields) {
    std::string text = "event: ";
    text += type;
    text += "\ndata: {\"type\":\"";
    text += type;
    text += strf("\",\"sequence_number\":%ld", long(sequence_++));
    text += fields;
    return text + "}\n\n";
  }

  // The last word: once what is to be stored is stored.
  void finish(State state, const char* event_type) {
    if (options_.background) context_.background.remove(options_.id);
    std::string response = dump_json(response_object(options_, std::move(state)));
    const auto last = std::make_shared<std::string>(
        options_.stream ? event_text(event_type, ",\"response\":" + response) : response);
    auto say = [&context = context_, exchange = exchange_, options = options_, error = error_,
                last]() mutable {
      if (options.stream) {
        context.events.append(options.id, *last);
        context.events.end(options.id);
        exchange.write(*last);
        exchange.end();
      } else if (!options.background) {
        exchange.respond(error ? error_response(*error)
                               : HttpResponse{.body = *last, .headers = options.headers});
      }
    };
    const bool keep =
        options_.store && (!error_ || (options_.background && error_->code != "deleted"));
    if (!keep) return say();
    exchange_.offload([&context = context_, exchange = exchange_, say,
                       record = stored(options_, std::move(response), false)]() mutable {
      if (const Status put = context.responses->put(record, std::time(nullptr)); !put)
        log_warning("storing response " + record.id + ": " + put.error().message);
      exchange.post(std::move(say));
    });
  }

  ApiContext& context_;
  Exchange exchange_;
  const ResponsesAnswerOptions options_;
  ResponseItems items_;
  bool accepted_ = false;
  int64_t sequence_ = 0;
  std::optional<ApiError> error_;
};

}  // namespace

std::string begun_response(const ResponsesAnswerOptions& options, const char* status) {
  return dump_json(response_object(options, {.status = status}));
}

std::unique_ptr<Answer> make_responses_answer(ApiContext& context, Exchange exchange,
                                              ResponsesAnswerOptions options) {
  return std::make_unique<ResponsesAnswer>(context, std::move(exchange), std::move(options));
}

}  // namespace rose
