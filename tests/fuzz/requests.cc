// JSON bodies through every route that takes one: nothing that a client sends is an error of ours, and
// what it gets is well formed.
#include <memory>

#include "api/scripted_engine.h"
#include "api/server.h"
#include "api/test_client.h"
#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "fuzz/targets.h"
#include "fuzz/vocabularies.h"

namespace rose::fuzz {

namespace {

constexpr const char* kTurns[] = {
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|"
    "return|>",
    "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\":1}<|call|>",
    "No channel<|end|><|start|>assistant<|channel|>final<|message|>caf\xC3\xA9<|return|>",
    "<|channel|>commentary to=functions.run <|constrain|>json<|message|>{\"input\": "
    "\"a\\n\\ud83d\\ude00\"}<|call|>",
};
constexpr const char* kPaths[] = {
    "/v1/chat/completions", "/v1/chat/completions", "/v1/chat/completions/render", "/v1/responses",
    "/v1/completions",      "/v1/messages",         "/v1/messages/count_tokens",   "/tokenize",
    "/detokenize",
};

class Rig {
 public:
  Rig() {
    set_log_level("error");
    format_ = std::move(*make_chat_format("harmony", demo_tokenizer()));
    engine_.script = [this](const Request&, int) { return turn_; };
    ServeOptions options;
    options.port = 0;
    options.date = "2026-01-31";
    auto started =
        Server::start(options, {.names = {"demo"}, .root = "/models/demo", .version = "0"}, engine_,
                      demo_tokenizer(), *format_);
    ROSE_CHECK(started.has_value(), "%s", started.error().message.c_str());
    server_ = std::move(*started);
  }

  testing::Answer post(const char* path, std::string_view body, const char* turn) {
    turn_ = demo_tokenizer().encode_special(turn);
    if (!client_) client_ = std::make_unique<testing::RawClient>(server_->port());
    testing::Answer answer = client_->post(path, std::string(body));
    if (answer.header("Connection") != "keep-alive") client_.reset();
    engine_.wait_until_idle();
    return answer;
  }

 private:
  std::unique_ptr<ChatFormat> format_;
  std::vector<int> turn_;  // what the model says next
  testing::ScriptedEngine engine_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<testing::RawClient> client_;
};

void check_event(std::string_view event) {
  if (event.starts_with(":") || event.ends_with("data: [DONE]")) return;
  const size_t data = event.find("data: ");
  ROSE_CHECK(data != event.npos, "an event without data: %.*s", int(event.size()), event.data());
  ROSE_CHECK(parse_json(event.substr(data + 6)).has_value(), "an event that is no JSON: %.*s",
             int(event.size()), event.data());
}

void check_answer(const testing::Answer& answer) {
  const char* body = answer.body.c_str();
  ROSE_CHECK(answer.status >= 200 && answer.status < 500, "status %d: %s", answer.status, body);
  if (answer.header("Content-Type").starts_with("text/event-stream")) {
    for (std::string_view rest = answer.body; !rest.empty();) {
      const size_t end = rest.find("\n\n");
      ROSE_CHECK(end != rest.npos, "the stream ends inside an event");
      check_event(rest.substr(0, end));
      rest.remove_prefix(end + 2);
    }
    return;
  }
  const auto json = parse_json(answer.body);
  ROSE_CHECK(json.has_value(), "the body is no JSON: %s", body);
  if (answer.status >= 400)
    ROSE_CHECK(json->contains("error") && (*json)["error"]["message"].is_string(),
               "an error without a message: %s", body);
}

}  // namespace

void requests(std::string_view input) {
  static Rig& rig = *new Rig;  // its threads run until the program ends
  Choices choices(input);
  const char* path = choices.of(kPaths);
  const char* turn = choices.of(kTurns);
  check_answer(rig.post(path, choices.rest(), turn));
}

}  // namespace rose::fuzz
