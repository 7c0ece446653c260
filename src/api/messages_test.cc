// Anthropic's Messages API: blocks and events as its clients see them.
#include "api/server_fixture.h"

namespace rose {
namespace {

using testing::Answer;
using testing::demo_tokenizer;
using testing::kCall;
using testing::kThink;
using testing::RawClient;
using testing::ServerTest;

constexpr const char* kMessageTools =
    R"("tools":[{"name":"get_weather","description":"Weather","input_schema":
       {"type":"object","properties":{"city":{"type":"string"}}}}])";

class MessagesTest : public ServerTest {
 protected:
  static std::string ask(const std::string& fields = "") {
    return R"({"model":"demo","max_tokens":300,"messages":[{"role":"user","content":"Hi"}])" +
           (fields.empty() ? "" : "," + fields) + "}";
  }
  Answer send(const std::string& body) { return RawClient(port()).post("/v1/messages", body); }
  Json get(const std::string& body) {
    const Answer answer = send(body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parse_json(answer.body).value_or(Json::object());
  }
  std::vector<Json> stream(const std::string& body) {
    std::vector<Json> events;
    const std::string text = send(body).body;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find("\n\n", at);
      const std::string event = text.substr(at, end - at);
      at = end + 2;
      const size_t line = event.find('\n');
      events.push_back(parse_json(event.substr(line + 7)).value_or(Json::object()));
      EXPECT_EQ(event.substr(0, line), "event: " + events.back()["type"].get<std::string>());
    }
    return events;
  }
  std::string last_prompt() { return demo_tokenizer().decode(engine_.requests().back().prompt); }
};

// The message that a client puts together from events.
Json assembled_message(const std::vector<Json>& events) {
  Json message;
  std::map<size_t, std::string> inputs;
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (type == "message_start") message = event["message"];
    if (type == "content_block_start") {
      EXPECT_EQ(event["index"], message["content"].size());
      message["content"].push_back(event["content_block"]);
    }
    if (type == "content_block_delta") {
      Json& block = message["content"][event["index"].get<size_t>()];
      for (const auto& [name, value] : event["delta"].items()) {
        if (name == "type") continue;
        if (name == "partial_json")
          inputs[event["index"]] += value.get<std::string>();
        else
          block[name] = block[name].get<std::string>() + value.get<std::string>();
      }
    }
    if (type == "message_delta") {
      message.update(event["delta"]);
      message["usage"] = event["usage"];
    }
  }
  for (const auto& [index, input] : inputs) message["content"][index]["input"] = *parse_json(input);
  return message;
}

Json without_block_ids(Json message) {
  message["id"] = "id";
  for (Json& block : message["content"])
    if (block.contains("id")) block["id"] = "id";
  return message;
}

TEST_F(MessagesTest, an_answer_is_blocks) {
  start();
  say(kThink);
  engine_.cached_tokens = 5;
  const Json message = get(ask());
  EXPECT_TRUE(message["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_EQ(message["content"], *parse_json(R"([{"type":"thinking","thinking":"Two and two.",
      "signature":"rose"},{"type":"text","text":"It is 4, café."}])"));
  EXPECT_EQ(message["stop_reason"], "end_turn");
  EXPECT_TRUE(message["stop_sequence"].is_null());
  EXPECT_EQ(message["usage"]["cache_read_input_tokens"], 5);
  EXPECT_EQ(message["usage"]["input_tokens"].get<size_t>() + 5,
            engine_.requests()[0].prompt.size());
  EXPECT_EQ(engine_.requests()[0].max_tokens, 300);

  const Json stopped = get(ask(R"("stop_sequences":["4"])"));
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "4");
  EXPECT_EQ(stopped["content"][1]["text"], "It is ");
  EXPECT_EQ(get(R"({"max_tokens":3,"messages":[{"role":"user","content":"Hi"}]})")["stop_reason"],
            "max_tokens");
}

TEST_F(MessagesTest, the_events_of_a_call) {
  start();
  say(kCall);
  std::string types;
  for (const Json& event : stream(ask(std::string("\"stream\":true,") + kMessageTools))) {
    std::string type = event["type"];
    if (event.contains("content_block"))
      type += "(" + event["content_block"]["type"].get<std::string>() + ")";
    if (type == "content_block_delta") type = event["delta"]["type"];
    if (!types.ends_with(type + "\n")) types += type + "\n";
  }
  EXPECT_EQ(types,
            "message_start\nping\n"
            "content_block_start(thinking)\nthinking_delta\nsignature_delta\ncontent_block_stop\n"
            "content_block_start(text)\ntext_delta\ncontent_block_stop\n"
            "content_block_start(tool_use)\ninput_json_delta\ncontent_block_stop\n"
            "message_delta\nmessage_stop\n");
}

TEST_F(MessagesTest, streamed_or_not_and_however_cut_it_is_the_same) {
  start();
  for (const char* said : {kThink, kCall, "No header.", "<|channel|>analysis<|message|>x",
                           "<|channel|>final<|message|><|return|>"}) {
    SCOPED_TRACE(said);
    say(said);
    const Json whole = get(ask(kMessageTools));
    for (const int chunk : {1, 2, 3, 7, 60}) {
      engine_.chunk = chunk;
      const Json streamed =
          assembled_message(stream(ask(std::string("\"stream\":true,") + kMessageTools)));
      EXPECT_EQ(without_block_ids(streamed), without_block_ids(whole));
    }
    engine_.chunk = 1;
  }
}

TEST_F(MessagesTest, the_prompt_is_the_conversation) {
  start();
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"get_weather","description":"Weather","parameters":
       {"type":"object","properties":{"city":{"type":"string"}}}}}])";
  post(R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},
      {"role":"assistant","content":"Look.","reasoning":"Hm.","tool_calls":[
        {"id":"c1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]},
      {"role":"tool","tool_call_id":"c1","content":"4 C"},{"role":"user","content":"Well?"}],"reasoning_effort":"high",)" +
       tools + "}");
  const std::string wanted = last_prompt();
  const std::string body =
      R"({"max_tokens":10,"system":[{"type":"text","text":"Be ","cache_control":{"type":"ephemeral"}},
      {"type":"text","text":"brief."}],"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]},
      {"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"rose"},
        {"type":"redacted_thinking","data":"?"},{"type":"text","text":"Look."},
        {"type":"tool_use","id":"c1","name":"get_weather","input":{"city":"Oslo"}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"4 C"}]},
        {"type":"text","text":"Well?"}]}],"output_config":{"effort":"max"},)" +
      std::string(kMessageTools) + "}";
  get(body);
  EXPECT_EQ(last_prompt(), wanted);
  const Json counted = *parse_json(RawClient(port()).post("/v1/messages/count_tokens", body).body);
  EXPECT_EQ(counted["input_tokens"], engine_.requests().back().prompt.size());
}

TEST_F(MessagesTest, tool_choices_and_thinking_bind_the_turn) {
  start();
  get(ask(R"("tool_choice":{"type":"any"},)" + std::string(kMessageTools)));
  EXPECT_TRUE(engine_.requests().back().constraint);
  get(ask(R"("tool_choice":{"type":"tool","name":"get_weather"},)" + std::string(kMessageTools)));
  EXPECT_TRUE(engine_.requests().back().constraint);
  get(ask(R"("tool_choice":{"type":"none"},)" + std::string(kMessageTools)));
  EXPECT_EQ(last_prompt().find("get_weather"), std::string::npos);
  get(ask(R"("tool_choice":{"type":"auto"},)" + std::string(kMessageTools)));
  EXPECT_FALSE(engine_.requests().back().constraint);
  get(ask(R"("thinking":{"type":"enabled","budget_tokens":1024})"));
  EXPECT_TRUE(engine_.requests().back().constraint);
  get(ask(R"("output_format":{"type":"json_schema","schema":{"type":"object"}})"));
  EXPECT_TRUE(engine_.requests().back().constraint);
}

TEST_F(MessagesTest, errors_have_this_api_s_own_shape) {
  start();
  struct {
    std::string body;
    int status;
    const char *type, *message;
  } cases[] = {
      {"{", 400, "invalid_request_error", "not valid JSON"},
      {"{}", 400, "invalid_request_error", "messages: is missing or empty"},
      {R"({"model":"no","messages":[{"role":"user","content":"Hi"}]})", 404, "not_found_error",
       "'no'"},
      {R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})", 400,
       "invalid_request_error", "messages[0].content[0].type"},
      {R"({"messages":[{"role":"user","content":[{"type":"tool_use","name":"x"}]}]})", 400,
       "invalid_request_error", "'tool_use'"},
      {R"({"messages":[{"role":"robot","content":"x"}]})", 400, "invalid_request_error", "'robot'"},
      {ask(R"("tools":[{"type":"web_search_20250305","name":"w"}])"), 400, "invalid_request_error",
       "unsupported tool type"},
      {ask(R"("tool_choice":{"type":"tool","name":"x"},)" + std::string(kMessageTools)), 400,
       "invalid_request_error", "none of the tools"},
      {ask(R"("thinking":{"type":"some"})"), 400, "invalid_request_error", "thinking.type"},
      {ask(R"("mcp_servers":[{}])"), 400, "invalid_request_error", "mcp_servers"},
  };
  for (const auto& [body, status, type, message] : cases) {
    SCOPED_TRACE(body);
    const Answer answer = send(body);
    EXPECT_EQ(answer.status, status);
    const Json json = parse_json(answer.body).value_or(Json::object());
    EXPECT_EQ(json.value("type", ""), "error");
    EXPECT_EQ(json["error"]["type"], type);
    EXPECT_NE(json["error"]["message"].get<std::string>().find(message), std::string::npos) << json;
  }
  engine_.busy = true;
  EXPECT_EQ((*parse_json(send(ask()).body))["error"]["type"], "rate_limit_error");
  engine_.busy = false;
  engine_.ending = Finish::failed;
  EXPECT_EQ(stream(ask("\"stream\":true")).back()["error"]["type"], "api_error");
}

TEST_F(MessagesTest, an_answer_that_was_begun_goes_on) {
  start();
  say("2}<|return|>");
  const Json message = get(R"({"max_tokens":50,"messages":[{"role":"user","content":"Hi"},
      {"role":"assistant","content":[{"type":"text","text":"{\"a\":"}]}]})");
  EXPECT_EQ(message["content"], *parse_json(R"([{"type":"text","text":"2}"}])"));
  EXPECT_TRUE(last_prompt().ends_with("<|channel|>final<|message|>{\"a\":")) << last_prompt();
}

}  // namespace
}  // namespace rose
