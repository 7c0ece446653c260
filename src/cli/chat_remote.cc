// A chat with a server that speaks the OpenAI API: its stream of chunks, read as they come.

#include "api/http_client.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/chat_backend.h"

namespace rose {

namespace {

Json message_json(const ChatMessage& message) {
  constexpr const char* kRoles[] = {"system", "developer", "user", "assistant", "tool"};
  Json json = {{"role", kRoles[int(message.role)]}, {"content", message.content}};
  if (!message.reasoning.empty()) json["reasoning"] = message.reasoning;
  return json;
}

// The chunks of one answer: server-sent events in, chat events out.
class ChunkReader {
 public:
  ChunkReader(ChatAnswer& answer, const std::function<void(const ChatEvent&)>& on_event)
      : answer_(answer), on_event_(on_event) {}

  void push(std::string_view bytes) {
    text_ += bytes;
    for (size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      const std::string_view line = std::string_view(text_).substr(0, end);
      if (line.rfind("data: ", 0) == 0)
        read(line.substr(6));
      else if (!line.empty() && line[0] == '{')
        read(line);  // an error's body is no stream
    }
  }
  void finish() {
    if (!text_.empty()) push("\n");
  }
  std::string error;

 private:
  void read(std::string_view data) {
    const Result<Json> chunk = parse_json(data);
    if (!chunk || !chunk->is_object()) return;  // [DONE]
    if (chunk->contains("error")) {
      const Json& problem = (*chunk)["error"];
      error = problem.is_object() ? problem.value("message", "no message") : dump_json(problem);
    }
    if (const auto usage = chunk->find("usage"); usage != chunk->end() && usage->is_object()) {
      answer_.prompt_tokens = usage->value("prompt_tokens", 0);
      answer_.completion_tokens = usage->value("completion_tokens", 0);
      if (const auto details = usage->find("prompt_tokens_details");
          details != usage->end() && details->is_object())
        answer_.cached_tokens = details->value("cached_tokens", 0);
    }
    if (!chunk->contains("choices") || !(*chunk)["choices"].is_array()) return;
    for (const Json& choice : (*chunk)["choices"]) {
      if (!choice.is_object()) continue;
      if (const auto reason = choice.find("finish_reason");
          reason != choice.end() && reason->is_string())
        answer_.finish_reason = *reason;
      if (const auto delta = choice.find("delta"); delta != choice.end() && delta->is_object())
        read_delta(*delta);
    }
  }

  void read_delta(const Json& delta) {
    const auto text_of = [](const Json& object, const char* name) -> std::string {
      const auto found = object.find(name);
      return found != object.end() && found->is_string() ? found->get<std::string>() : "";
    };
    const auto say = [&](ChatEvent::Kind kind, const std::string& text) {
      if (!text.empty()) on_event_({.kind = kind, .text = text});
    };
    const std::string reasoning = text_of(delta, "reasoning");
    say(ChatEvent::Kind::reasoning,
        reasoning.empty() ? text_of(delta, "reasoning_content") : reasoning);
    say(ChatEvent::Kind::content, text_of(delta, "content"));
    if (!delta.contains("tool_calls") || !delta["tool_calls"].is_array()) return;
    for (const Json& call : delta["tool_calls"]) {
      if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
        continue;
      say(ChatEvent::Kind::tool_call, text_of(call["function"], "name"));
      say(ChatEvent::Kind::tool_arguments, text_of(call["function"], "arguments"));
    }
  }

  ChatAnswer& answer_;
  const std::function<void(const ChatEvent&)>& on_event_;
  std::string text_;  // not yet a whole line
};

class RemoteChat final : public ChatBackend {
 public:
  RemoteChat(HttpUrl url, std::string model, std::string api_key)
      : url_(std::move(url)), model_(std::move(model)), api_key_(std::move(api_key)) {}

  std::string name() const override { return url_.host + ":" + url_.port; }
  std::string about() const override {
    return strf("  %-20s %s://%s:%s%s\n  %-20s %s\n", "server", url_.tls ? "https" : "http",
                url_.host.c_str(), url_.port.c_str(), url_.path.c_str(), "model",
                model_.empty() ? "the server's own" : model_.c_str());
  }

  Result<ChatAnswer> answer(const ChatPrompt& prompt, const ChatSampling& sampling,
                            const std::function<void(const ChatEvent&)>& on_event,
                            const std::atomic<bool>& stop) override {
    const Json body = to_body(prompt, sampling);
    ChatAnswer answer;
    const Time start = Clock::now();
    const std::function<void(const ChatEvent&)> timed = [&](const ChatEvent& event) {
      if (answer.first_token_seconds == 0) answer.first_token_seconds = seconds_since(start);
      on_event(event);
    };
    ChunkReader reader(answer, timed);
    const int status = TRY(http_post(
        {.url = url_, .target = "/chat/completions", .bearer = api_key_, .body = dump_json(body)},
        [&](std::string_view bytes) { reader.push(bytes); }, stop));
    reader.finish();
    answer.seconds = seconds_since(start);
    if (stop)
      answer.finish_reason = "stopped";
    else if (status != 200 || !reader.error.empty())
      return fail(ErrorKind::io,
                  strf("the server answered %d: %s", status,
                       reader.error.empty() ? "no reason given" : reader.error.c_str()));
    return answer;
  }

 private:
  // What is as OpenAI's API has it by default is left out: not every server knows every field.
  Json to_body(const ChatPrompt& prompt, const ChatSampling& sampling) const {
    constexpr const char* kEfforts[] = {"low", "medium", "high"};
    Json body = {{"messages", Json::array()},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}},
                 {"temperature", sampling.temperature},
                 {"top_p", sampling.top_p},
                 {"reasoning_effort", kEfforts[int(prompt.effort)]}};
    const auto unless = [&](double usual, const char* name, double value) {
      if (value != usual) body[name] = value;
    };
    unless(0, "min_p", sampling.min_p);
    unless(0, "presence_penalty", sampling.presence_penalty);
    unless(0, "frequency_penalty", sampling.frequency_penalty);
    unless(1, "repetition_penalty", sampling.repetition_penalty);
    if (sampling.top_k != 0) body["top_k"] = sampling.top_k;
    if (sampling.seed >= 0) body["seed"] = sampling.seed;
    if (sampling.max_tokens > 0) body["max_completion_tokens"] = sampling.max_tokens;
    if (!sampling.stop.empty()) body["stop"] = sampling.stop;
    if (sampling.json) body["response_format"] = {{"type", "json_object"}};
    if (!model_.empty()) body["model"] = model_;
    for (const ChatMessage& message : prompt.messages)
      body["messages"].push_back(message_json(message));
    return body;
  }

  HttpUrl url_;
  std::string model_, api_key_;
};

}  // namespace

Result<std::unique_ptr<ChatBackend>> remote_chat(const std::string& url, const std::string& model,
                                                 const std::string& api_key) {
  HttpUrl parsed = TRY(parse_url(url));
  if (parsed.path.empty()) parsed.path = "/v1";
  return std::make_unique<RemoteChat>(std::move(parsed), model, api_key);
}

}  // namespace rose
