// For tests of the Responses API: what a model says, and what a client makes of the events.
#pragma once
#include "api/server_fixture.h"

namespace rose::testing {

inline constexpr const char* kThinkTwiceCall =
    "<|channel|>analysis<|message|>Need "
    "it.<|end|><|start|>assistant<|channel|>commentary<|message|>"
    "Let me "
    "look.<|end|><|start|>assistant<|channel|>analysis<|message|>Now.<|end|><|start|>assistant"
    "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Oslo\"}"
    "<|call|>";
inline constexpr const char* kCustomCall =
    "<|channel|>commentary to=functions.run <|constrain|>json<|message|>{\"input\": \"ls "
    "\\\"a\\\"\\n"
    "\xF0\x9F\x98\x80\"}<|call|>";
inline constexpr const char* kCustomTools =
    R"("tools":[{"type":"custom","name":"run","description":"Runs it"},
       {"type":"custom","name":"count","format":{"type":"grammar","syntax":"regex","definition":"[0-9]+"}}])";
inline constexpr const char* kResponseTools =
    R"("tools":[{"type":"function","name":"get_weather","description":"Weather","parameters":
       {"type":"object","properties":{"city":{"type":"string"}}}}])";

// The events of a stream, each of which says its type twice and its number.
inline std::vector<Json> named_events(const std::string& body) {
  std::vector<Json> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    const std::string event = body.substr(at, end - at);
    at = end + 2;
    if (event.starts_with(":")) continue;
    const size_t line = event.find('\n');
    EXPECT_TRUE(event.starts_with("event: ") && event.substr(line).starts_with("\ndata: "))
        << event;
    auto json = parse_json(event.substr(line + 7));
    EXPECT_TRUE(json) << event;
    if (!json) break;
    EXPECT_EQ((*json)["type"], event.substr(7, line - 7));
    EXPECT_EQ((*json)["sequence_number"], events.size());
    events.push_back(std::move(*json));
  }
  return events;
}

inline std::string types_of(const std::vector<Json>& events) {
  std::string types, last;
  for (const Json& event : events) {
    std::string type = event["type"].get<std::string>().substr(std::string("response.").size());
    if (type == last && type.ends_with(".delta")) continue;  // however many
    if (event.contains("item")) type += "(" + event["item"]["type"].get<std::string>() + ")";
    types += type + "\n";
    last = event["type"].get<std::string>().substr(std::string("response.").size());
  }
  return types;
}

// Without what differs from one response to the next.
inline Json without_ids(Json value) {
  if (value.is_object()) {
    for (const char* name : {"id", "call_id", "created_at", "completed_at"})
      if (value.contains(name) && !value[name].is_null()) value[name] = name;
    for (auto& [name, inner] : value.items()) inner = without_ids(inner);
  } else if (value.is_array()) {
    for (Json& inner : value) inner = without_ids(inner);
  }
  return value;
}

// Items put together from events alone, as a client does.
inline Json assembled(const std::vector<Json>& events) {
  Json items = Json::array();
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (type == "response.output_item.added") {
      EXPECT_EQ(event["output_index"], items.size());
      items.push_back(event["item"]);
    } else if (type == "response.content_part.added") {
      EXPECT_EQ(event["content_index"], 0);
      items[event["output_index"].get<size_t>()]["content"].push_back(event["part"]);
    } else if (type.ends_with(".delta")) {
      Json& item = items[event["output_index"].get<size_t>()];
      EXPECT_EQ(event["item_id"], item["id"]);
      Json& text = type == "response.function_call_arguments.delta"  ? item["arguments"]
                   : type == "response.custom_tool_call_input.delta" ? item["input"]
                                                                     : item["content"][0]["text"];
      text = text.get<std::string>() + event["delta"].get<std::string>();
      for (const Json& logprob : event.value("logprobs", Json::array()))
        item["content"][0]["logprobs"].push_back(logprob);
    } else if (type == "response.output_item.done") {
      Json& item = items[event["output_index"].get<size_t>()];
      item["status"] = event["item"]["status"];
      item["encrypted_content"] = event["item"].value("encrypted_content", Json());
      if (item["type"] != "reasoning") item.erase("encrypted_content");
      EXPECT_EQ(item, event["item"]);
    }
  }
  return items;
}

class ResponsesTest : public ServerTest {
 protected:
  static std::string ask(const std::string& fields = "") {
    return R"({"model":"demo","input":"Hi")" + (fields.empty() ? "" : "," + fields) + "}";
  }
  Answer send(const std::string& body) { return RawClient(port()).post("/v1/responses", body); }
  Json respond(const std::string& body) {
    const Answer answer = send(body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parse_json(answer.body).value_or(Json::object());
  }
  Answer call(const std::string& method, const std::string& path) {
    RawClient client(port());
    client.send(method + " /v1/responses/" + path +
                " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    return client.read();
  }
  Json get(const std::string& path) {
    const Answer answer = call("GET", path);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parse_json(answer.body).value_or(Json::object());
  }
  // Until it has ended, or for so long that it never will.
  Json ended(const std::string& id) {
    Json response;
    for (int i = 0; i < 50'000; ++i) {
      response = get(id);
      if (response["status"] != "in_progress") break;
      std::this_thread::yield();
    }
    return response;
  }
  std::string last_prompt() { return demo_tokenizer().decode(engine_.requests().back().prompt); }
};

}  // namespace rose::testing
