// What models and clients do elsewhere and servers break on, over HTTP: whole, and streamed in updates
// of every size. docs/faults.md says where each was reported; the numbers are that table's.
#include "api/server_fixture.h"

namespace rose {
namespace {

using testing::Answer;
using testing::demo_tokenizer;
using testing::events;
using testing::joined;
using testing::ServerTest;

// What a model says, and what a client must get of it.
struct Fault {
  const char* number;
  std::string said;
  const char* tools;  // names, with blanks between
  const char* reasoning;
  const char* content;
  std::vector<std::string> calls;  // "name(arguments)"
  const char* finish_reason;
};

constexpr const char* kFinal = "<|start|>assistant<|channel|>final<|message|>";
const std::string kNote = "<|channel|>commentary to=functions.read_note ";

// clang-format off
const Fault kFaults[] = {
    {"B01", std::string("No, this I will not do.<|end|><|start|>assistant<|channel|>analysis<|message|>Must decline.<|end|>") +
            kFinal + "Sorry, I can't help with that.<|return|>",
     "", "No, this I will not do.\n\nMust decline.", "Sorry, I can't help with that.", {}, "stop"},
    {"B01", "No, this I will not do.<|end|>", "", "", "No, this I will not do.", {}, "length"},
    {"B02", "<|channel|>final<|message|>Seven.<|end|><|return|>", "", "", "Seven.", {}, "stop"},
    {"B02", "<|channel|>final<|message|>Seven.<|end|><|end|>", "", "", "Seven.", {}, "length"},
    {"B02", "<|channel|>final<|message|>Seven.<|return|> and more", "", "", "Seven.", {}, "stop"},
    {"B03", "<|channel|>commentary to=functions.run_sql <|constrain|>json<|message|>{\"q\":\"select 1\"}<|call|>"
            "commentary<|channel|>commentary to=functions.run_sql<|message|>{}<|call|>",
     "run_sql", "", "", {"run_sql({\"q\":\"select 1\"})"}, "tool_calls"},
    {"B05", std::string("<|channel|>analysis<|message|>ok<|end|><|start|>") + kFinal + "4<|return|>", "", "ok", "4", {}, "stop"},
    {"B06", "<|channel|>analysis<|message|>a<|end|><|start|>assistantassistant<|channel|>final<|message|>Hi<|return|>",
     "", "a", "Hi", {}, "stop"},
    {"B07", "<|channel|><|message|>Hello there<|return|>", "", "", "Hello there", {}, "stop"},
    {"B09", "<|channel|>commentary to=functions.read_note to=functions.read_note <|constrain|>json<|message|>{\"id\":7}<|call|>",
     "read_note", "", "", {"read_note({\"id\":7})"}, "tool_calls"},
    {"B10", "<|channel|>final The sum is 12.<|return|>", "", "", "The sum is 12.", {}, "stop"},
    {"B11", "<|channel|>finalx<|message|>Paris<|return|>", "", "", "Paris", {}, "stop"},
    {"B13", "<|channel|>commentary to=get_forecast <|constrain|>json<|message|>{\"city\":\"Oslo\"}<|call|>",
     "get_forecast", "", "", {"get_forecast({\"city\":\"Oslo\"})"}, "tool_calls"},
    {"B13", "<|channel|>commentary to=get_forecast <|constrain|>json<|message|>{\"city\":\"Oslo\"}<|call|>",
     "run_sql", "", "{\"city\":\"Oslo\"}", {}, "stop"},
    {"B14", "<|channel|>analysis<|message|>Search.<|end|><|start|>assistant<|channel|>analysis to=functions.find_text code"
            "<|message|>{\"pat\":\"abc\"}<|call|>",
     "find_text", "Search.", "", {"find_text({\"pat\":\"abc\"})"}, "tool_calls"},
    {"B15", "<|channel|>commentary to=functions.shelljson<|message|>{\"cmd\":\"ls\"}<|call|>",
     "shell", "", "", {"shell({\"cmd\":\"ls\"})"}, "tool_calls"},
    {"B15", "<|channel|>commentary to=functions.shelljson<|message|>{\"cmd\":\"ls\"}<|call|>",
     "shell shelljson", "", "", {"shelljson({\"cmd\":\"ls\"})"}, "tool_calls"},
    {"B17", "<|channel|>commentary to=functions.read_note<|constrain|>json<|message|>{}<|call|>",
     "read_note", "", "", {"read_note({})"}, "tool_calls"},
    {"B17", "<|channel|>commentary <|constrain|>json to=functions.read_note<|message|>{}<|call|>",
     "read_note", "", "", {"read_note({})"}, "tool_calls"},
    {"B17", kNote + "<|constrain|>edit the note<|message|>{}<|call|>",
     "read_note", "", "", {"read_note({})"}, "tool_calls"},
    {"B18", "<|channel|>commentary\u202fto=functions.get_forecast <|constrain|>json<|message|>{\"city\":\"Rome\"}<|call|>",
     "get_forecast", "", "", {"get_forecast({\"city\":\"Rome\"})"}, "tool_calls"},
    {"B18", "<|channel|>––commentary to=functions.get_forecast <|constrain|>json<|message|>{\"city\":\"Rome\"}<|call|>",
     "get_forecast", "", "", {"get_forecast({\"city\":\"Rome\"})"}, "tool_calls"},
    {"B19", kNote + "<|constrain|>json<|message|>{\"id\":1}<|return|>", "read_note", "", "", {"read_note({\"id\":1})"}, "tool_calls"},
    {"B21", "<|channel|>analysis to=python code<|message|>print(1)<|call|>", "python", "", "", {"python(print(1))"}, "tool_calls"},
    {"B22", "<|channel|>analysis", "", "", "", {}, "length"},
    {"B23", "<|channel|>commentary<|message|>{\"path\":\"/\",\"name\":\"*x*\"}<|end|>", "find", "",
     "{\"path\":\"/\",\"name\":\"*x*\"}", {}, "length"},
    {"B25", std::string("<|channel|>analysis<|message|>1<|end|><|start|>assistant<|channel|>analysis<|message|>2<|end|>"
            "<|start|>assistant<|channel|>analysis<|message|>3<|end|><|start|>assistant<|channel|>commentary<|message|>Wait.<|end|>") +
            kFinal + "Done.<|return|>",
     "", "1\n\n2\n\n3", "Wait.\n\nDone.", {}, "stop"},
    {"B26", "<|channel|>final<|message|>{\"n\":[]}<|return|>", "", "", "{\"n\":[]}", {}, "stop"},
    {"B30", std::string("<|channel|>analysis<|message|>so 4.<|end|>") + kFinal + "It is<|return|>", "", "so 4.", "It is", {}, "stop"},
    {"B34", "<|channel|>final<|message|>\U0001F600<|return|>", "", "", "\U0001F600", {}, "stop"},
    {"B38", "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>commentary<|message|>I'll check both files.<|end|>"
            "<|start|>assistant" + kNote + "<|constrain|>json<|message|>{\"id\":1}<|call|>",
     "read_note", "x", "I'll check both files.", {"read_note({\"id\":1})"}, "tool_calls"},
};
// clang-format on

class FaultsTest : public ServerTest {
 protected:
  static std::string tools(const std::string& names) {
    std::string list;
    for (size_t at = 0; at < names.size();) {
      const size_t end = std::min(names.find(' ', at), names.size());
      list += (list.empty() ? "" : ",") +
              std::string(R"({"type":"function","function":{"name":")") +
              names.substr(at, end - at) + "\"}}";
      at = end + 1;
    }
    return list.empty() ? "\"seed\":1" : "\"tools\":[" + list + "]";
  }

  static std::vector<std::string> calls(const Json& message) {
    std::vector<std::string> out;
    for (const Json& call : message.value("tool_calls", Json::array()))
      out.push_back(call["function"]["name"].get<std::string>() + "(" +
                    call["function"]["arguments"].get<std::string>() + ")");
    return out;
  }
  static std::string text(const Json& message, const char* field) {
    return message.contains(field) && message[field].is_string() ? message[field].get<std::string>()
                                                                 : "";
  }
  static void expect(const Fault& fault, const Json& choice) {
    const Json message = choice.at("message");
    EXPECT_EQ(text(message, "reasoning"), fault.reasoning);
    EXPECT_EQ(text(message, "content"), fault.content);
    EXPECT_EQ(calls(message), fault.calls);
    EXPECT_EQ(choice.at("finish_reason"), fault.finish_reason);
  }
};

TEST_F(FaultsTest, imperfect_harmony_is_read_whole_and_in_updates_of_every_size) {
  start();
  for (const Fault& fault : kFaults) {
    say(fault.said);
    const std::string fields = tools(fault.tools);
    for (const int size : {1, 2, 3, 7, 60}) {
      SCOPED_TRACE(strf("%s in updates of %d: %s", fault.number, size, fault.said.c_str()));
      engine_.chunk = size;
      expect(fault, complete(fields)["choices"][0]);
      const Answer streamed = post(chat("\"stream\":true," + fields));
      EXPECT_EQ(streamed.status, 200);
      EXPECT_EQ(streamed.body.find("<|"), std::string::npos) << streamed.body;
      expect(fault, joined(events(streamed.body)));
    }
  }
}

// B03: what a step produced after the end of a call is neither parsed nor counted.
TEST_F(FaultsTest, tokens_behind_the_end_of_a_call_are_not_counted) {
  start();
  const std::string call = kNote + "<|constrain|>json<|message|>{}<|call|>";
  say(call + "commentary to=functions.read_note");
  engine_.chunk = 60;
  EXPECT_EQ(complete(tools("read_note"))["usage"]["completion_tokens"],
            demo_tokenizer().encode_special(call).size());
}

// B22: an answer that its limit ends inside a header.
TEST_F(FaultsTest, an_answer_cut_in_its_header_is_empty_and_counted) {
  start();
  say("<|channel|>analysis<|message|>Hm.<|return|>");
  Json body = complete("\"max_tokens\":2");
  EXPECT_TRUE(body["choices"][0]["message"]["content"].is_null());
  EXPECT_FALSE(body["choices"][0]["message"].contains("reasoning"));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["completion_tokens"], 2);
}

// B27: a history with raw markup is text, and no error.
TEST_F(FaultsTest, markup_in_a_history_is_text) {
  start();
  const Answer answer = post(
      R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":
      "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi"},{"role":"user","content":"So?"}]})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  const std::vector<int> prompt = engine_.requests().back().prompt;
  const auto count = [&](const char* name) {
    return std::count(prompt.begin(), prompt.end(), *demo_tokenizer().special(name));
  };
  EXPECT_EQ(count("<|message|>"), 4);  // system, user, assistant, user
  EXPECT_EQ(count("<|channel|>"), 1);
}

// B33, B35: bytes that are no text cost one replacement each, and never reach the next message.
TEST_F(FaultsTest, broken_bytes_stay_in_their_message) {
  start();
  const auto byte = [](uint8_t value) {
    const char c = char(value);
    for (int token = 0; token < demo_tokenizer().vocab(); ++token)
      if (demo_tokenizer().bytes(token) == std::string_view(&c, 1)) return token;
    return -1;
  };
  struct Case {
    const char* before;
    std::vector<uint8_t> bytes;
    const char *after, *reasoning, *content;
  };
  const Case cases[] = {
      {"<|channel|>final<|message|>", {0xC3, 'A', 'B'}, "!<|return|>", "", "\uFFFDAB!"},
      {"<|channel|>final<|message|>", {0xF0, 0x9F, 'A'}, "<|return|>", "", "\uFFFDA"},
      {"<|channel|>final<|message|>", {0xF0, 0x9F, 0x98, 0x80}, "<|return|>", "", "\U0001F600"},
      {"<|channel|>analysis<|message|>",
       {0xF0, 0x9F},
       "<|end|><|start|>assistant<|channel|>final<|message|>ok<|return|>",
       "\uFFFD",
       "ok"},
  };
  for (const Case& one : cases) {
    std::vector<int> tokens = demo_tokenizer().encode_special(one.before);
    for (const uint8_t value : one.bytes) tokens.push_back(byte(value));
    for (const int token : demo_tokenizer().encode_special(one.after)) tokens.push_back(token);
    engine_.script = [tokens](const Request&, int) { return tokens; };
    for (const int size : {1, 2, 60}) {
      engine_.chunk = size;
      const Json message = joined(events(post(chat("\"stream\":true")).body))["message"];
      EXPECT_EQ(text(message, "reasoning"), one.reasoning);
      EXPECT_EQ(text(message, "content"), one.content);
    }
  }
}

// B37, B39, B41: clients put calls together by their index; only the first delta of one has an id.
TEST_F(FaultsTest, calls_of_a_stream_are_told_apart_by_their_index) {
  start();
  const std::string first = kNote + "<|constrain|>json<|message|>{\"id\":1}";
  say(first + "<|end|><|start|>assistant" + kNote +
      "<|constrain|>json<|message|>{\"id\":2}<|call|>");
  int begun = 0;
  for (const Json& chunk : events(post(chat("\"stream\":true," + tools("read_note"))).body))
    for (const Json& call : chunk["choices"][0]["delta"].value("tool_calls", Json::array())) {
      if (call.contains("id")) {
        EXPECT_EQ(call["index"], begun++);
        EXPECT_EQ(call["type"], "function");
        EXPECT_EQ(call["function"]["name"], "read_note");
        EXPECT_EQ(call["function"]["arguments"], "");
      } else {
        EXPECT_EQ(call["index"], begun - 1);
      }
    }
  EXPECT_EQ(begun, 2);
  say("<|channel|>final<|message|>No call.<|return|>");
  EXPECT_EQ(complete(tools("read_note"))["choices"][0]["finish_reason"], "stop");
}

// B45: what clients bill by.
TEST_F(FaultsTest, usage_has_reasoning_and_cached_tokens_in_streams_too) {
  start();
  say("<|channel|>analysis<|message|>one two "
      "three<|end|><|start|>assistant<|channel|>commentary<|message|>six<|end|>"
      "<|start|>assistant<|channel|>final<|message|>four<|return|>");
  engine_.cached_tokens = 5;
  const auto chunks =
      events(post(chat(R"("stream":true,"stream_options":{"include_usage":true})")).body);
  const Json last = chunks.back();
  EXPECT_TRUE(last["choices"].empty());
  EXPECT_EQ(last["usage"]["prompt_tokens_details"]["cached_tokens"], 5);
  EXPECT_EQ(
      last["usage"]["completion_tokens_details"]["reasoning_tokens"],
      demo_tokenizer().encode_special("<|channel|>analysis<|message|>one two three<|end|>").size());
}

// B47: tool_choice "none" leaves the tools out of the prompt.
TEST_F(FaultsTest, tool_choice_none_means_no_tools) {
  start();
  complete(tools("get_forecast") + R"(,"tool_choice":"none")");
  EXPECT_EQ(demo_tokenizer().decode(engine_.requests().back().prompt).find("get_forecast"),
            std::string::npos);
}

// B50, B54, B61, B71, B73: shapes that clients send back.
TEST_F(FaultsTest, histories_come_in_many_shapes) {
  start();
  const auto prompt = [&](const std::string& messages, const std::string& fields = "\"seed\":1") {
    const Answer answer = post("{\"messages\":[" + messages + "]," + fields + "}");
    EXPECT_EQ(answer.status, 200) << answer.body;
    return demo_tokenizer().decode(engine_.requests().back().prompt);
  };
  const auto with = [](const std::string& content) {
    return R"({"role":"assistant","content":"Checking.","reasoning":"Need it.","tool_calls":[{"id":"c1","type":"function",
      "function":{"name":"db.query","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":)" +
           content + "}";
  };
  const std::string result =
      "<|start|>functions.db.query to=assistant<|channel|>commentary<|message|>";
  EXPECT_NE(prompt(with(R"([{"type":"text","text":"A"},{"type":"text","text":"B"}])"))
                .find(result + "AB<|end|>"),
            std::string::npos);
  const std::string empty = prompt(with("[]"));
  EXPECT_NE(empty.find(result + "<|end|>"), std::string::npos);
  EXPECT_NE(
      empty.find(
          "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary"
          "<|message|>Checking.<|end|>"),
      std::string::npos);
  EXPECT_EQ(
      post("{\"messages\":[" + with(R"([{"type":"image_url","image_url":{"url":"x"}}])") + "]}")
          .status,
      400);

  EXPECT_NE(prompt(R"({"role":"assistant","content":"Hi","tool_calls":[]})")
                .find("<|start|>assistant<|channel|>final<|message|>Hi<|end|>"),
            std::string::npos);
  for (const char* type : {"text", "input_text", "output_text"})
    EXPECT_NE(prompt(strf(R"({"role":"assistant","content":[{"type":"%s","text":"Part"}]})", type))
                  .find("Part<|end|>"),
              std::string::npos);
  for (const char* field : {R"("reasoning":"why")", R"("reasoning_content":"why")",
                            R"("reasoning":"why","reasoning_content":"why")"}) {
    const std::string text =
        prompt(strf(R"({"role":"assistant",%s,"tool_calls":[{"id":"c","type":"function",
      "function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"1"})",
                    field));
    const size_t at = text.find("<|message|>why<|end|>");
    EXPECT_NE(at, std::string::npos) << text;
    EXPECT_EQ(text.find("why", at + 14), std::string::npos) << text;
  }
}

// B57, B58, B59: schemas of the usual generators are no error.
TEST_F(FaultsTest, unions_numeric_enums_and_references_in_tools_are_fine) {
  start();
  complete(
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{
    "unit":{"anyOf":[{"type":"string","enum":["c","f"]},{"type":"null"}],"default":null},
    "priority":{"type":"integer","enum":[1,2,3]},"rows":{"type":"array","items":{"$ref":"#/$defs/Row"}},
    "self":{"$ref":"#"},"lost":{"$ref":"#/$defs/none"}},
    "$defs":{"Row":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}}}}}])");
  const std::string prompt = demo_tokenizer().decode(engine_.requests().back().prompt);
  for (const char* part : {"unit?: \"c\" | \"f\" | null, // default: null", "priority?: 1 | 2 | 3,",
                           "a?: string", "}[],"})
    EXPECT_NE(prompt.find(part), std::string::npos) << part << prompt;
}

// B67: the date can be fixed or left out, so that a prefix outlives midnight.
TEST_F(FaultsTest, the_date_is_an_option) {
  ServeOptions options;
  options.date = "none";
  start(options);
  complete();
  EXPECT_EQ(demo_tokenizer().decode(engine_.requests().back().prompt).find("Current date"),
            std::string::npos);
}

// B79: a limit that the reasoning uses up.
TEST_F(FaultsTest, reasoning_is_never_shown_as_the_answer) {
  start();
  say("<|channel|>analysis<|message|>one two three four five six<|end|>");
  for (const char* limit : {"max_tokens", "max_completion_tokens"}) {
    Json body = complete(strf("\"%s\":6", limit));
    Json message = body["choices"][0]["message"];
    EXPECT_TRUE(message["content"].is_null());
    EXPECT_EQ(text(message, "reasoning").substr(0, 3), "one");
    EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 6);
  }
}

// B109: what was asked is what was counted.
TEST_F(FaultsTest, every_request_is_counted_once_by_its_outcome) {
  start();
  for (int i = 0; i < 3; ++i) complete();
  complete("\"max_tokens\":1");
  EXPECT_EQ(post(chat("\"temperature\":9")).status, 400);
  const std::string text = metrics();
  for (const char* line : {"outcome=\"stop\"} 3\n", "outcome=\"length\"} 1\n",
                           "outcome=\"rejected\"} 1\n", "outcome=\"abort\"} 0\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
  EXPECT_NE(text.find("num_requests_running{engine=\"0\",model_name=\"demo\"} 0\n"),
            std::string::npos);
}

}  // namespace
}  // namespace rose
