// The Responses API: items and events as clients see them, streamed and not, and what is kept.
#include <filesystem>

#include "api/server_fixture.h"

namespace rose {
namespace {

using testing::Answer;
using testing::demo_tokenizer;
using testing::RawClient;
using testing::ServerTest;

constexpr const char* kThink =
    "<|channel|>analysis<|message|>Two and two.<|end|><|start|>assistant<|channel|>final<|message|>"
    "It is 4, caf\xC3\xA9.<|return|>";
constexpr const char* kCall =
    "<|channel|>analysis<|message|>Need "
    "it.<|end|><|start|>assistant<|channel|>commentary<|message|>"
    "Let me "
    "look.<|end|><|start|>assistant<|channel|>analysis<|message|>Now.<|end|><|start|>assistant"
    "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\":\"Oslo\"}"
    "<|call|>";
constexpr const char* kCustomCall =
    "<|channel|>commentary to=functions.run <|constrain|>json<|message|>{\"input\": \"ls "
    "\\\"a\\\"\\n"
    "\xF0\x9F\x98\x80\"}<|call|>";
constexpr const char* kCustomTools =
    R"("tools":[{"type":"custom","name":"run","description":"Runs it"},
       {"type":"custom","name":"count","format":{"type":"grammar","syntax":"regex","definition":"[0-9]+"}}])";
constexpr const char* kTools =
    R"("tools":[{"type":"function","name":"get_weather","description":"Weather","parameters":
       {"type":"object","properties":{"city":{"type":"string"}}}}])";

// The events of a stream, each of which says its type twice and its number.
std::vector<Json> named_events(const std::string& body) {
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

std::string types_of(const std::vector<Json>& events) {
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
Json without_ids(Json value) {
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
Json assembled(const std::vector<Json>& events) {
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

TEST_F(ResponsesTest, a_response_has_items_and_repeats_what_was_asked) {
  start();
  say(kThink);
  engine_.cached_tokens = 5;
  const Json response =
      respond(ask(R"("instructions":"Be brief.","temperature":0.5,"metadata":{"a":"b"},
      "reasoning":{"effort":"high"},"max_output_tokens":200,"user":"u")"));
  const Json expected = *parse_json(R"({"id":"id","object":"response","created_at":"created_at",
    "completed_at":"completed_at","status":"completed","error":null,"incomplete_details":null,"model":"demo","output":[
      {"id":"id","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Two and two."}],
       "encrypted_content":null,"status":"completed"},
      {"id":"id","type":"message","status":"completed","role":"assistant","content":[
        {"type":"output_text","text":"It is 4, café.","annotations":[],"logprobs":[]}]}]})");
  const Json shown = without_ids(response);
  for (const auto& [name, value] : expected.items()) EXPECT_EQ(shown[name], value) << name;
  const Json repeated = *parse_json(R"({"background":false,"instructions":"Be brief.",
      "max_output_tokens":200,"metadata":{"a":"b"},"parallel_tool_calls":true,"previous_response_id":null,
      "reasoning":{"effort":"high","summary":null},"store":true,"temperature":0.5,
      "text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"none","tools":[],"top_p":1.0,
      "truncation":"disabled","user":"u"})");
  for (const auto& [name, value] : repeated.items()) EXPECT_EQ(response[name], value) << name;
  const Json usage = response["usage"];
  EXPECT_EQ(usage["input_tokens"], engine_.requests()[0].prompt.size());
  EXPECT_EQ(usage["input_tokens_details"]["cached_tokens"], 5);
  EXPECT_GT(usage["output_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_EQ(usage["total_tokens"].get<int>(),
            usage["input_tokens"].get<int>() + usage["output_tokens"].get<int>());
  EXPECT_TRUE(response["id"].get<std::string>().starts_with("resp_"));
  EXPECT_TRUE(response["output"][0]["id"].get<std::string>().starts_with("rs_"));
  EXPECT_TRUE(response["output"][1]["id"].get<std::string>().starts_with("msg_"));
}

TEST_F(ResponsesTest, the_events_of_an_answer) {
  start();
  say(kThink);
  const auto events = named_events(send(ask("\"stream\":true")).body);
  EXPECT_EQ(types_of(events),
            "created\nin_progress\n"
            "output_item.added(reasoning)\ncontent_part.added\nreasoning_text.delta\n"
            "reasoning_text.done\ncontent_part.done\noutput_item.done(reasoning)\n"
            "output_item.added(message)\ncontent_part.added\noutput_text.delta\n"
            "output_text.done\ncontent_part.done\noutput_item.done(message)\ncompleted\n");
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[0]["response"]["output"], Json::array());
  EXPECT_TRUE(events[0]["response"]["usage"].is_null());
}

TEST_F(ResponsesTest, the_events_of_a_call) {
  start();
  say(kCall);
  const auto events = named_events(send(ask(std::string("\"stream\":true,") + kTools)).body);
  const std::string reasoning =
      "output_item.added(reasoning)\ncontent_part.added\nreasoning_text.delta\n"
      "reasoning_text.done\ncontent_part.done\noutput_item.done(reasoning)\n";
  EXPECT_EQ(types_of(events),
            "created\nin_progress\n" + reasoning +
                "output_item.added(message)\ncontent_part.added\noutput_text.delta\n"
                "output_text.done\ncontent_part.done\noutput_item.done(message)\n" +
                reasoning +
                "output_item.added(function_call)\nfunction_call_arguments.delta\n"
                "function_call_arguments.done\noutput_item.done(function_call)\ncompleted\n");
  const Json output = events.back()["response"]["output"];
  EXPECT_EQ(output[2]["content"][0]["text"], "Now.");
  EXPECT_EQ(output[3]["name"], "get_weather");
  EXPECT_EQ(output[3]["arguments"], "{\"city\":\"Oslo\"}");
  EXPECT_TRUE(output[3]["call_id"].get<std::string>().starts_with("call_"));
  EXPECT_TRUE(output[3]["id"].get<std::string>().starts_with("fc_"));
}

TEST_F(ResponsesTest, custom_tools_take_text) {
  start();
  say(kCustomCall);
  const auto events = named_events(send(ask(std::string("\"stream\":true,") + kCustomTools)).body);
  EXPECT_EQ(
      types_of(events),
      "created\nin_progress\noutput_item.added(custom_tool_call)\ncustom_tool_call_input.delta\n"
      "custom_tool_call_input.done\noutput_item.done(custom_tool_call)\ncompleted\n");
  const Json response = events.back()["response"];
  EXPECT_EQ(
      without_ids(response["output"][0]),
      *parse_json(R"({"id":"id","type":"custom_tool_call","status":"completed","call_id":"call_id",
      "name":"run","input":"ls \"a\"\n😀"})"));
  EXPECT_TRUE(response["output"][0]["id"].get<std::string>().starts_with("ctc_"));
  EXPECT_EQ(response["tools"],
            *parse_json(R"([{"type":"custom","name":"run","description":"Runs it",
      "format":{"type":"text"}},{"type":"custom","name":"count","description":null,
      "format":{"type":"grammar","syntax":"regex","definition":"[0-9]+"}}])"));
  // The model is told of a function of one string, and held to it.
  EXPECT_TRUE(engine_.requests().back().constraint);
  EXPECT_NE(last_prompt().find("type run = (_: {\ninput: string,\n}) => any;"), std::string::npos)
      << last_prompt();
  // It goes on with what the tool said.
  say(kThink);
  respond(R"({"previous_response_id":")" + response["id"].get<std::string>() + "\"," +
          kCustomTools + R"(,"input":[{"type":"custom_tool_call_output","call_id":")" +
          response["output"][0]["call_id"].get<std::string>() + R"(","output":"a\nb"}]})");
  EXPECT_TRUE(last_prompt().ends_with(
      "to=functions.run<|channel|>commentary <|constrain|>json<|message|>{\"input\":\"ls "
      "\\\"a\\\"\\n\xF0\x9F\x98\x80\"}<|call|><|start|>functions.run "
      "to=assistant<|channel|>commentary"
      "<|message|>a\nb<|end|><|start|>assistant"))
      << last_prompt();
}

TEST_F(ResponsesTest, a_custom_tool_can_be_forced) {
  start();
  for (const char* choice :
       {R"({"type":"custom","name":"count"})",
        R"({"type":"allowed_tools","mode":"required","tools":[{"type":"custom","name":"count"}]})"})
    respond(ask(std::string(kCustomTools) + ",\"tool_choice\":" + choice));
  const auto constraint = engine_.requests().back().constraint();
  for (const int token :
       demo_tokenizer().encode_special("<|channel|>commentary to=functions.count "
                                       "<|constrain|>json<|message|>{\"input\":\"12")) {
    ASSERT_TRUE(constraint->mask()[size_t(token) / 32] >> (token % 32) & 1)
        << demo_tokenizer().decode(std::vector{token});
    constraint->accept(token);
  }
  const int letter = demo_tokenizer().encode("x")[0];
  EXPECT_FALSE(constraint->mask()[size_t(letter) / 32] >> (letter % 32) & 1);
}

TEST_F(ResponsesTest, calls_keep_to_their_schema_unless_told_not_to) {
  start();
  const auto tool = [](const char* more, const char* keyword = "\"type\":\"string\"") {
    return strf(R"("tools":[{"type":"function","name":"f","parameters":{"type":"object",
        "properties":{"a":{%s}}}%s}])",
                keyword, more);
  };
  struct {
    std::string tools;
    bool strict;
  } const cases[] = {{tool(""), true},
                     {tool(",\"strict\":null"), true},
                     {tool(",\"strict\":true"), true},
                     {tool(",\"strict\":false"), false},
                     {tool("", "\"contains\":{}"), false},  // cannot be kept: no error
                     {"\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]", false}};
  for (const auto& [tools, strict] : cases) {
    const Json response = respond(ask(tools));
    EXPECT_EQ(response["tools"][0]["strict"], strict) << tools;
    EXPECT_EQ(bool(engine_.requests().back().constraint), strict) << tools;
  }
  EXPECT_EQ(send(ask(tool(",\"strict\":true", "\"contains\":{}"))).status, 400);
}

TEST_F(ResponsesTest, many_tools_that_together_are_too_much_are_free) {
  start();
  engine_.memory().max_context = 1 << 20;
  std::string tools;
  for (int i = 0; i < 60; ++i)
    tools += strf(R"(%s{"type":"function","name":"f%d","parameters":{"type":"object","properties":
        {"a":{"const":"%s"}}}})",
                  i ? "," : "", i, std::string(8000, char('a' + i % 26)).c_str());
  respond(ask("\"tools\":[" + tools + "]"));
  EXPECT_FALSE(engine_.requests().back().constraint);
}

TEST_F(ResponsesTest, an_item_can_be_sent_by_its_id) {
  start();
  say(kThink);
  const Json first = respond(R"({"input":[{"role":"user","content":"A","id":"mine"}]})");
  const std::string answer = first["output"][1]["id"];
  const Json second = respond(R"({"input":[{"type":"item_reference","id":"mine"},{"id":")" +
                              answer + R"("},{"role":"user","content":"B"}]})");
  EXPECT_TRUE(
      last_prompt().ends_with("<|start|>user<|message|>A<|end|><|start|>assistant<|channel|>final<|"
                              "message|>It is 4, café.<|end|>"
                              "<|start|>user<|message|>B<|end|><|start|>assistant"))
      << last_prompt();
  const Json items = get(second["id"].get<std::string>() + "/input_items?order=asc");
  EXPECT_EQ(items["data"][1], first["output"][1]);
  const Answer lost = send(R"({"input":[{"type":"item_reference","id":"rs_x"}]})");
  EXPECT_EQ(lost.status, 404);
  EXPECT_EQ((*parse_json(lost.body))["error"]["param"], "input[0].id");
}

TEST_F(ResponsesTest, a_background_stream_can_be_taken_up_again) {
  start();
  say(kThink);
  engine_.hold_after = 8;
  RawClient leaving(port());
  leaving.send_post("/v1/responses", ask(R"("background":true,"stream":true)"));
  std::string begun;
  ASSERT_TRUE(leaving.read_until("reasoning_text.delta", &begun));
  leaving.close();
  const std::string id = begun.substr(begun.find("resp_"), 37);

  RawClient back(port());
  back.send("GET /v1/responses/" + id +
            "?stream=true&starting_after=1 HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(back.read_until("reasoning_text.delta"));  // before the end
  engine_.release();
  ended(id);
  const auto all = named_events(call("GET", id + "?stream=true").body);
  EXPECT_EQ(all.back()["type"], "response.completed");
  EXPECT_EQ(all.back()["response"], get(id));
  EXPECT_EQ(assembled(all), get(id)["output"]);
  std::string rest;
  ASSERT_TRUE(back.read_until("0\r\n\r\n", &rest));
  EXPECT_NE(rest.find("response.completed"), std::string::npos);
  const std::string last =
      call("GET", id + "?stream=true&starting_after=" + std::to_string(all.size() - 2)).body;
  EXPECT_TRUE(last.starts_with("event: response.completed\n")) << last;
  EXPECT_EQ(call("GET", id + "?stream=true&starting_after=x").status, 400);
  EXPECT_EQ(call("GET", "resp_x?stream=true").status, 404);
  EXPECT_EQ(call("GET", respond(ask())["id"].get<std::string>() + "?stream=true").status, 400);
  EXPECT_EQ(call("DELETE", id).status, 200);
  EXPECT_EQ(call("GET", id + "?stream=true").status, 404);
}

TEST_F(ResponsesTest, a_background_response_has_its_time_too) {
  start();
  say(kThink);
  engine_.hold_after = 3;
  const Answer begun = RawClient(port()).post("/v1/responses", ask("\"background\":true"),
                                              "X-Request-Timeout-Ms: 1\r\n");
  const std::string id = (*parse_json(begun.body))["id"];
  EXPECT_EQ(ended(id)["status"], "failed");
  EXPECT_NE(get(id)["error"]["message"].get<std::string>().find("not complete after"),
            std::string::npos);
  EXPECT_EQ(engine_.cancelled(), 1);
}

TEST_F(ResponsesTest, streamed_or_not_and_however_cut_it_is_the_same) {
  start();
  const std::string many =
      std::string(kCustomTools) +
      R"(,"include":["reasoning.encrypted_content","message.output_text.logprobs"])";
  for (const char* said :
       {kThink, kCall, kCustomCall, "No header at all.", "<|channel|>final<|message|>",
        "<|channel|>analysis<|message|>x",
        "<|channel|>final<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|"
        ">",
        "<|channel|>commentary to=functions.f<|message|>{}<|end|><|start|>assistant<|channel|>"
        "commentary to=functions.g<|message|>{\"a\":\"\xF0\x9F\x98\x80\"}<|call|>"}) {
    SCOPED_TRACE(said);
    say(said);
    const Json whole = respond(ask(many));
    for (const int chunk : {1, 2, 3, 7, 60}) {
      engine_.chunk = chunk;
      const auto events = named_events(send(ask("\"stream\":true," + many)).body);
      ASSERT_FALSE(events.empty());
      const Json last = events.back()["response"];
      EXPECT_EQ(without_ids(last), without_ids(whole));
      EXPECT_EQ(assembled(events), last["output"]);
      EXPECT_EQ(events[0]["response"]["id"], last["id"]);
    }
    engine_.chunk = 1;
  }
}

TEST_F(ResponsesTest, an_answer_that_is_cut_short_is_incomplete) {
  start();
  say("<|channel|>analysis<|message|>On and on and on.<|end|>");
  const Json response = respond(ask("\"max_output_tokens\":5"));
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
  const auto events = named_events(send(ask("\"max_output_tokens\":5,\"stream\":true")).body);
  EXPECT_EQ(events.back()["type"], "response.incomplete");
}

TEST_F(ResponsesTest, a_failing_engine_is_500_or_a_failed_response) {
  start();
  engine_.ending = Finish::failed;
  EXPECT_EQ(send(ask()).status, 500);
  const auto events = named_events(send(ask("\"stream\":true")).body);
  EXPECT_EQ(events.back()["type"], "response.failed");
  EXPECT_EQ(events.back()["response"]["error"]["code"], "server_error");
  engine_.busy = true;
  EXPECT_EQ(send(ask("\"stream\":true")).status, 429);
  EXPECT_EQ(send(ask("\"background\":true")).status, 429);
}

TEST_F(ResponsesTest, a_conversation_goes_on_from_a_stored_response) {
  start();
  say(kCall);
  const Json first = respond(ask(R"("instructions":"OLD RULE",)" + std::string(kTools)));
  say(kThink);
  const Json second =
      respond(R"({"previous_response_id":")" + first["id"].get<std::string>() +
              R"(","instructions":"NEW RULE","input":[{"type":"function_call_output","call_id":")" +
              first["output"][3]["call_id"].get<std::string>() +
              R"(","output":[{"type":"input_text","text":"4 C"}]}]})");
  EXPECT_EQ(second["previous_response_id"], first["id"]);
  std::string prompt = last_prompt();
  EXPECT_NE(prompt.find("NEW RULE"), std::string::npos);
  EXPECT_EQ(prompt.find("OLD RULE"), std::string::npos);
  EXPECT_TRUE(prompt.ends_with(
      "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>analysis<|message|>Need "
      "it.\n\nNow."
      "<|end|><|start|>assistant<|channel|>commentary<|message|>Let me "
      "look.<|end|><|start|>assistant"
      " to=functions.get_weather<|channel|>commentary "
      "<|constrain|>json<|message|>{\"city\":\"Oslo\"}<|call|>"
      "<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>4 C<|end|>"
      "<|start|>assistant"))
      << prompt;

  // Once answered, the thoughts are gone and the words before the call stay.
  respond(R"({"previous_response_id":")" + second["id"].get<std::string>() +
          R"(","input":"And?"})");
  prompt = last_prompt();
  EXPECT_EQ(prompt.find("<|channel|>analysis"), std::string::npos);
  EXPECT_NE(prompt.find("<|channel|>commentary<|message|>Let me look."), std::string::npos);
  EXPECT_TRUE(
      prompt.ends_with("<|start|>assistant<|channel|>final<|message|>It is 4, caf\xC3\xA9.<|end|>"
                       "<|start|>user<|message|>And?<|end|><|start|>assistant"))
      << prompt;
}

TEST_F(ResponsesTest, items_come_back_in_every_shape) {
  start();
  // The same conversation as Chat Completions tell it: one path makes both prompts.
  post(R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},
      {"role":"assistant","content":"Look.","reasoning":"Hm.","tool_calls":[
        {"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}},
        {"id":"c2","type":"function","function":{"name":"sub","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"c2","content":"2"},{"role":"tool","tool_call_id":"c1","content":"1"}]})");
  const std::string wanted = last_prompt();
  respond(
      R"({"input":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"input_text","text":"Hi"}]},
      {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]},
      {"type":"message","role":"assistant","id":"msg_1","status":"completed","content":[{"type":"output_text","text":"Look."}]},
      {"type":"function_call","call_id":"c1","name":"add","arguments":"{\"a\":1}"},
      {"type":"function_call","call_id":"c2","name":"sub","arguments":{}},
      {"type":"function_call_output","call_id":"c2","output":"2"},
      {"type":"function_call_output","call_id":"c1","output":[{"type":"output_text","text":"1"}]}]})");
  EXPECT_EQ(last_prompt(), wanted);
  respond(R"({"instructions":"Be brief.","input":[{"type":"message","role":"user","content":"Hi"},
      {"type":"reasoning","encrypted_content":"rose:Hm."},{"role":"assistant","content":"Look."},
      {"type":"function_call","call_id":"c1","name":"add","arguments":"{\"a\":1}"},
      {"type":"function_call","call_id":"c2","name":"sub","arguments":"{}"},
      {"type":"function_call_output","call_id":"c2","output":"2"},
      {"type":"function_call_output","call_id":"c1","output":"1"}]})");
  EXPECT_EQ(last_prompt(), wanted);
}

TEST_F(ResponsesTest, what_is_stored_can_be_fetched_listed_and_deleted) {
  start();
  say(kThink);
  const Json response =
      respond(R"({"input":[{"role":"user","content":"A"},{"role":"assistant","content":"B"},
      {"role":"user","content":"C","id":"mine"}]})");
  const std::string id = response["id"];
  EXPECT_EQ(get(id), response);
  Json items = get(id + "/input_items");
  ASSERT_EQ(items["data"].size(), 3u);
  EXPECT_EQ(items["data"][0]["id"], "mine");
  EXPECT_EQ(items["first_id"], "mine");
  EXPECT_EQ(items["has_more"], false);
  items = get(id + "/input_items?order=asc&limit=1&after=" +
              get(id + "/input_items?order=asc")["data"][0]["id"].get<std::string>());
  ASSERT_EQ(items["data"].size(), 1u);
  EXPECT_EQ(items["data"][0]["content"], "B");
  EXPECT_EQ(items["has_more"], true);
  EXPECT_EQ(call("GET", id + "/input_items?limit=0").status, 400);
  EXPECT_EQ(call("POST", id + "/cancel").status, 400);

  EXPECT_EQ((*parse_json(call("DELETE", id).body))["deleted"], true);
  for (const char* method : {"GET", "DELETE"}) EXPECT_EQ(call(method, id).status, 404) << method;

  const Json unstored = respond(ask("\"store\":false"));
  EXPECT_EQ(unstored["store"], false);
  EXPECT_EQ(call("GET", unstored["id"].get<std::string>()).status, 404);
  const Answer lost = send(R"({"previous_response_id":"resp_x","input":"Hi"})");
  EXPECT_EQ(lost.status, 404);
  EXPECT_EQ((*parse_json(lost.body))["error"]["param"], "previous_response_id");
}

TEST_F(ResponsesTest, what_is_stored_is_seen_by_its_own_key_only) {
  ServeOptions options;
  options.keys.api_key = {"sk-ann", "sk-bob"};
  start(options);
  const auto with = [](const char* key) { return strf("Authorization: Bearer %s\r\n", key); };
  RawClient client(port());
  const std::string id =
      (*parse_json(client.post("/v1/responses", ask(), with("sk-ann")).body))["id"];
  EXPECT_EQ(client.get("/v1/responses/" + id, with("sk-ann")).status, 200);
  EXPECT_EQ(client.get("/v1/responses/" + id, with("sk-bob")).status, 404);
  EXPECT_EQ(client.get("/v1/responses/" + id).status, 401);
  const std::string more = R"({"input":"And?","previous_response_id":")" + id + "\"}";
  EXPECT_EQ(client.post("/v1/responses", more, with("sk-bob")).status, 404);
  EXPECT_EQ(client.post("/v1/responses", more, with("sk-ann")).status, 200);
  // Anthropic's API refuses in its own words.
  const Json refused = *parse_json(client.post("/v1/messages", "{}").body);
  EXPECT_EQ(refused["type"], "error");
  EXPECT_EQ(refused["error"]["type"], "authentication_error");
}

TEST_F(ResponsesTest, without_a_store_nothing_is_kept) {
  ServeOptions options;
  options.response_store = "off";
  start(options);
  const Json response = respond(ask("\"store\":true"));
  EXPECT_EQ(response["store"], false);
  EXPECT_EQ(call("GET", response["id"].get<std::string>()).status, 404);
  EXPECT_EQ(send(ask("\"background\":true")).status, 400);
  EXPECT_EQ(send(ask("\"previous_response_id\":\"resp_x\"")).status, 404);
}

TEST_F(ResponsesTest, a_background_response_goes_on_alone) {
  start();
  say(kThink);
  engine_.hold_after = 3;
  const Json begun = respond(ask("\"background\":true"));
  EXPECT_EQ(begun["status"], "queued");
  const std::string id = begun["id"];
  EXPECT_EQ(get(id)["status"], "in_progress");
  EXPECT_EQ(send(R"({"input":"Hi","previous_response_id":")" + id + "\"}").status, 400);
  engine_.release();
  EXPECT_EQ(ended(id)["status"], "completed");
  EXPECT_EQ(get(id)["output"][1]["content"][0]["text"], "It is 4, caf\xC3\xA9.");
  EXPECT_EQ((*parse_json(call("POST", id + "/cancel").body))["status"], "completed");
}

TEST_F(ResponsesTest, a_background_response_can_be_cancelled_or_deleted) {
  start();
  say(kThink);
  engine_.hold_after = 3;
  const std::string id = respond(ask("\"background\":true"))["id"];
  EXPECT_EQ((*parse_json(call("POST", id + "/cancel").body))["status"], "cancelled");
  engine_.wait_until_idle();
  EXPECT_EQ(ended(id)["status"], "cancelled");
  EXPECT_EQ(engine_.cancelled(), 1);

  const std::string other = respond(ask("\"background\":true"))["id"];
  EXPECT_EQ(call("DELETE", other).status, 200);
  engine_.wait_until_idle();
  EXPECT_EQ(call("GET", other).status, 404);
  EXPECT_EQ(engine_.cancelled(), 2);
}

TEST_F(ResponsesTest, shutting_down_ends_background_responses) {
  const std::string path = ::testing::TempDir() + "/drained.db";
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path + end);
  ServeOptions options;
  options.response_store = path;
  start(options);
  engine_.hold_after = 3;
  const std::string id = respond(ask("\"background\":true"))["id"];
  const std::string done = [&] {
    engine_.release();
    return respond(ask("\"instructions\":\"keep\""))["id"].get<std::string>();
  }();
  engine_.hold_after = 3;
  const std::string cut = respond(ask("\"background\":true"))["id"];
  server_.reset();
  start(options);
  engine_.release();
  EXPECT_EQ(get(cut)["status"], "failed");
  EXPECT_EQ(get(done)["instructions"], "keep");
}

TEST_F(ResponsesTest, text_format_binds_the_answer) {
  start();
  respond(ask(R"("text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":
      {"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}}})"));
  EXPECT_TRUE(engine_.requests().back().constraint);
  EXPECT_NE(last_prompt().find("# Response Formats\n\n## n\n"), std::string::npos);
  respond(ask(R"("text":{"format":{"type":"text"}})"));
  EXPECT_FALSE(engine_.requests().back().constraint);
}

TEST_F(ResponsesTest, every_wrong_request_is_named) {
  start();
  struct {
    std::string body;
    const char *param, *message;
  } cases[] = {
      {"{}", "input", "is missing"},
      {R"({"input":[]})", "input", "is empty"},
      {R"({"input":5})", "input", "wanted a string or an array"},
      {R"({"input":["x"]})", "input[0]", "wanted an item"},
      {R"({"input":[{"type":"web_search_call"}]})", "input[0].type", "not supported"},
      {R"({"input":[{"role":"robot","content":"x"}]})", "input[0].role", "'robot' is unknown"},
      {R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})",
       "input[0].content[0].type", "reads text only"},
      {R"({"input":[{"type":"function_call_output","output":"x"}]})", "input[0].call_id",
       "is missing"},
      {R"({"input":[{"type":"function_call_output","call_id":"no","output":"x"}]})", "input",
       "no call"},
      {ask("\"tools\":[{\"type\":\"web_search_preview\"}]"), "tools[0].type",
       "unsupported tool type"},
      {ask(R"("tools":[{"type":"custom","name":"a b"}])"), "tools[0].name", "wanted 1 to 64"},
      {ask(R"("tools":[{"type":"custom","name":"a","format":{"type":"grammar","syntax":"lark","definition":"x"}}])"),
       "tools[0].format.syntax", "'lark' is not supported, regex is"},
      {ask(R"("tools":[{"type":"custom","name":"a","format":{"type":"grammar","syntax":"regex","definition":"(?=x)y"}}])"),
       "tools", "look-around"},
      {ask("\"tool_choice\":\"required\""), "tool_choice", "needs tools"},
      {ask(std::string(kTools) + ",\"tool_choice\":{\"type\":\"function\",\"name\":\"x\"}"),
       "tool_choice", "'x' is none of the tools"},
      {ask("\"include\":[\"everything\"]"), "include[0]", "is not known"},
      {ask("\"text\":{\"format\":{\"type\":\"yaml\"}}"), "text.format.type", "'yaml'"},
      {ask("\"text\":{\"verbosity\":\"low\"}"), "text.verbosity", "not supported"},
      {ask("\"conversation\":\"c\""), "conversation", "use previous_response_id"},
      {ask("\"background\":true,\"store\":false"), "background", "not stored"},
      {ask("\"max_output_tokens\":0"), "max_output_tokens", "0 is not in 1"},
      {ask("\"metadata\":5"), "metadata", "wanted an object"},
      {ask("\"reasoning\":{\"effort\":\"vast\"}"), "reasoning.effort", "'vast'"},
  };
  for (const auto& [body, param, message] : cases) {
    SCOPED_TRACE(body);
    const Answer answer = send(body);
    EXPECT_EQ(answer.status, 400);
    const Json error = (*parse_json(answer.body))["error"];
    EXPECT_EQ(error["param"], param) << error;
    EXPECT_NE(error["message"].get<std::string>().find(message), std::string::npos) << error;
  }
  EXPECT_TRUE(engine_.requests().empty());
}

TEST_F(ResponsesTest, input_tokens_are_counted) {
  start();
  const Answer counted =
      RawClient(port()).post("/v1/responses/input_tokens", ask("\"instructions\":\"x\""));
  respond(ask("\"instructions\":\"x\""));
  EXPECT_EQ((*parse_json(counted.body))["input_tokens"], engine_.requests()[0].prompt.size());
}

}  // namespace
}  // namespace rose
