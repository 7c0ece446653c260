// For tests: a server on a free port over a scripted engine, with the demo model's tokenizer and the
// real chat format. What the model "says" is written as Harmony text.
#pragma once
#include <gtest/gtest.h>

#include "api/scripted_engine.h"
#include "api/server.h"
#include "api/test_client.h"
#include "base/json.h"
#include "base/log.h"

namespace rose::testing {

// What the model of a test says: a thought and an answer; a thought, a preamble and a call.
inline constexpr const char* kThink =
    "<|channel|>analysis<|message|>Two and two.<|end|><|start|>assistant<|channel|>final<|message|>"
    "It is 4, caf\xC3\xA9.<|return|>";
inline constexpr const char* kCall =
    "<|channel|>analysis<|message|>Need "
    "it.<|end|><|start|>assistant<|channel|>commentary<|message|>"
    "Let me look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
    "<|constrain|>json<|message|>{\"city\":\"Oslo\"}<|call|>";

inline const Tokenizer& demo_tokenizer() {
  static const Tokenizer tokenizer = [] {
    auto loaded = Tokenizer::load(ROSE_SOURCE_DIR "/models/demo");
    ROSE_CHECK(loaded.has_value(), "demo tokenizer: %s", loaded.error().message.c_str());
    return std::move(*loaded);
  }();
  return tokenizer;
}

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_level("error");
    auto format = make_chat_format("harmony", demo_tokenizer());
    ASSERT_TRUE(format) << format.error().message;
    format_ = std::move(*format);
    say("<|channel|>final<|message|>Hello.<|return|>");
  }
  void TearDown() override {
    server_.reset();
    set_log_level("info");
  }

  void start(ServeOptions options = {}) {
    options.port = 0;
    if (options.date.empty()) options.date = "2026-01-31";
    auto server = Server::start(
        options, {.names = {"demo", "org/demo"}, .root = "/models/demo", .version = "0"}, engine_,
        demo_tokenizer(), *format_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }

  // What every choice generates from now on.
  void say(const std::string& harmony) {
    const std::vector<int> tokens = demo_tokenizer().encode_special(harmony);
    engine_.script = [tokens](const Request&, int) { return tokens; };
  }

  int port() const { return server_->port(); }

  // A request with one user message and these fields besides, '"seed":1,"n":2'.
  static std::string chat(const std::string& fields = "") {
    return R"({"model":"demo","messages":[{"role":"user","content":"Hi"}])" +
           (fields.empty() ? "" : "," + fields) + "}";
  }
  Answer post(const std::string& body, const std::string& headers = "") {
    return RawClient(port()).post("/v1/chat/completions", body, headers);
  }
  Json complete(const std::string& fields = "") {
    const Answer answer = post(chat(fields));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parse_json(answer.body).value_or(Json::object());
  }
  std::string metrics() { return RawClient(port()).get("/metrics").body; }

  ScriptedEngine engine_;
  std::unique_ptr<ChatFormat> format_;
  std::unique_ptr<Server> server_;
};

// The JSON of a stream's events; "[DONE]" must be the last and is left out.
inline std::vector<Json> events(const std::string& body) {
  std::vector<Json> parsed;
  size_t at = 0;
  bool done = false;
  while (at < body.size()) {
    const size_t end = body.find("\n\n", at);
    EXPECT_NE(end, std::string::npos) << body.substr(at);
    if (end == std::string::npos) break;
    const std::string event = body.substr(at, end - at);
    at = end + 2;
    if (event.starts_with(":")) continue;
    EXPECT_FALSE(done) << event;
    if (event == "data: [DONE]") {
      done = true;
      continue;
    }
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    const auto json = parse_json(event.substr(6));
    EXPECT_TRUE(json) << event;
    if (json) parsed.push_back(*json);
  }
  EXPECT_TRUE(done) << body;
  return parsed;
}

// The message and ending of one choice, put together from chunks as a client does.
inline Json joined(const std::vector<Json>& chunks, int choice = 0) {
  Json message = {{"role", nullptr}, {"content", nullptr}};
  Json finish_reason, stop_reason;
  Json logprobs = Json::array();
  for (const Json& chunk : chunks) {
    for (const Json& part : chunk.value("choices", Json::array())) {
      if (part["index"] != choice) continue;
      for (const auto& [key, value] : part["delta"].items()) {
        if (key == "tool_calls") {
          for (const Json& call : value) {
            const size_t index = call["index"];
            if (call.contains("id")) {
              EXPECT_EQ(index, message.value("tool_calls", Json::array()).size());
              message["tool_calls"].push_back(call);
              message["tool_calls"].back().erase("index");
            } else {
              EXPECT_EQ(call.size(), 2u) << call;
              std::string& arguments =
                  message["tool_calls"][index]["function"]["arguments"].get_ref<std::string&>();
              arguments += call["function"]["arguments"].get<std::string>();
            }
          }
        } else if (message.contains(key) && message[key].is_string()) {
          message[key].get_ref<std::string&>() += value.get<std::string>();
        } else {
          message[key] = value;
        }
      }
      if (part["logprobs"].is_object())
        for (const Json& entry : part["logprobs"]["content"]) logprobs.push_back(entry);
      if (!part["finish_reason"].is_null()) {
        finish_reason = part["finish_reason"];
        stop_reason = part["stop_reason"];
      }
    }
  }
  if (message["content"] == "") message["content"] = nullptr;
  return {{"message", message},
          {"finish_reason", finish_reason},
          {"stop_reason", stop_reason},
          {"logprobs", logprobs}};
}

}  // namespace rose::testing
