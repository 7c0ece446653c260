// The Responses API: items and events as clients see them, streamed and not.
#include "api/responses_fixture.h"

namespace rose {
namespace {

using testing::Answer;
using testing::assembled;
using testing::demo_tokenizer;
using testing::kCustomCall;
using testing::kCustomTools;
using testing::kResponseTools;
using testing::kThink;
using testing::kThinkTwiceCall;
using testing::named_events;
using testing::RawClient;
using testing::ResponsesTest;
using testing::types_of;
using testing::without_ids;

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
  say(kThinkTwiceCall);
  const auto events =
      named_events(send(ask(std::string("\"stream\":true,") + kResponseTools)).body);
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

TEST_F(ResponsesTest, streamed_or_not_and_however_cut_it_is_the_same) {
  start();
  const std::string many =
      std::string(kCustomTools) +
      R"(,"include":["reasoning.encrypted_content","message.output_text.logprobs"])";
  for (const char* said :
       {kThink, kThinkTwiceCall, kCustomCall, "No header at all.", "<|channel|>final<|message|>",
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
      {ask(std::string(kResponseTools) + ",\"tool_choice\":{\"type\":\"function\",\"name\":\"x\"}"),
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
