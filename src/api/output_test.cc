// Structured output and forced calls over HTTP: which constraint a request takes to the engine, and
// which requests are refused.
#include "api/server_fixture.h"

namespace rose {
namespace {

using testing::Answer;
using testing::demo_tokenizer;
using testing::ServerTest;

constexpr const char* kStrictTools =
    R"("tools":[{"type":"function","function":{"name":"weather","parameters":
       {"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}},
       {"type":"function","function":{"name":"odd","parameters":{"type":"object","not":{}}}}])";
constexpr const char* kSchema =
    R"({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false})";

class OutputTest : public ServerTest {
 protected:
  // The turns that the last request's constraint lets through.
  bool follows(const std::string& turn) {
    const Request request = engine_.requests().back();
    if (!request.constraint) return true;
    const auto constraint = request.constraint();
    for (const int token : demo_tokenizer().encode_special(turn)) {
      if (!(constraint->mask()[size_t(token) / 32] >> (token % 32) & 1)) return false;
      constraint->accept(token);
    }
    return constraint->complete();
  }
  static std::string answer(const std::string& text) {
    return "<|channel|>final<|message|>" + text + "<|return|>";
  }
  static std::string call(const std::string& name, const std::string& arguments) {
    return "<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>" +
           arguments + "<|call|>";
  }
  void expect_refused(const std::string& fields, const std::string& param,
                      const std::string& message) {
    SCOPED_TRACE(fields);
    const Answer answer = post(chat(fields));
    EXPECT_EQ(answer.status, 400);
    const Json error =
        parse_json(answer.body).value_or(Json::object()).value("error", Json::object());
    EXPECT_EQ(error.value("param", ""), param);
    EXPECT_NE(error.value("message", "").find(message), std::string::npos) << error;
  }
};

TEST_F(OutputTest, every_field_that_asks_for_a_form) {
  start();
  const std::string schema = kSchema;
  std::string quoted = dump_json(Json(schema));
  struct Case {
    std::string fields, in, out;
  };
  const Case cases[] = {
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":)" +
           schema + "}}",
       R"({"n": 5})", R"({"n": "5"})"},
      {R"("response_format":{"type":"json_object"})", R"({"x":[1]})", "[1]"},
      {R"("structured_outputs":{"json":)" + schema + "}", R"({"n":5})", "{}"},
      {R"("structured_outputs":{"json":)" + quoted + "}", R"({"n":5})", "{}"},
      {R"("structured_outputs":{"json_object":true})", "{}", "5"},
      {R"("structured_outputs":{"regex":"\\d+"})", "123", "x"},
      {R"("structured_outputs":{"choice":["yes","no"]})", "no", "maybe"},
      {R"("structured_outputs":{"grammar":"root ::= \"a\"+"})", "aaa", "b"},
      {R"("guided_json":)" + schema, R"({"n":5})", "{}"},
      {R"("guided_regex":"a|b")", "b", "ab"},
      {R"("guided_choice":["yes","no"])", "yes", "y"},
      {R"("guided_grammar":"root ::= \"a\"+")", "aaa", ""},
      {R"("regex":"a|b")", "a", "c"},
      {R"("ebnf":"root ::= \"a\"+")", "aaa", ""},
      {R"("grammar":"root ::= \"a\"+")", "aaa", ""},
      {R"("json_schema":)" + schema, R"({"n":5})", "{}"},
  };
  for (const Case& wanted : cases) {
    SCOPED_TRACE(wanted.fields);
    complete(wanted.fields);
    EXPECT_TRUE(follows(answer(wanted.in)));
    EXPECT_FALSE(follows(answer(wanted.out)));
    EXPECT_TRUE(
        follows("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant" + answer(wanted.in)));
  }
  complete(R"("response_format":{"type":"text"})");
  EXPECT_FALSE(engine_.requests().back().constraint);
}

TEST_F(OutputTest, the_model_is_told_of_the_schema) {
  start();
  complete(R"("response_format":{"type":"json_schema","json_schema":{"name":"numbers","schema":)" +
           std::string(kSchema) + "}}");
  const std::string prompt = demo_tokenizer().decode(engine_.requests().back().prompt);
  EXPECT_NE(prompt.find("# Response Formats\n\n## numbers\n\n{\"type\":\"object\""),
            std::string::npos)
      << prompt;
}

TEST_F(OutputTest, tool_choice_decides_who_may_be_called) {
  start();
  const std::string tools = kStrictTools;
  const std::string weather = call("weather", R"({"city":"Oslo"})"),
                    odd = call("odd", R"({"a": 1})");
  complete(tools);
  EXPECT_FALSE(engine_.requests().back().constraint);
  complete(tools + R"(,"tool_choice":"required")");
  EXPECT_TRUE(follows(weather));
  EXPECT_TRUE(follows(odd));
  EXPECT_FALSE(follows(call("weather", "{}")));
  EXPECT_FALSE(follows(call("odd", "1")));
  EXPECT_FALSE(follows(answer("No.")));
  complete(tools + R"(,"tool_choice":{"type":"function","function":{"name":"weather"}})");
  EXPECT_TRUE(follows(weather));
  EXPECT_FALSE(follows(odd));
  complete(tools + R"(,"tool_choice":"none")");
  EXPECT_FALSE(engine_.requests().back().constraint);
  // With a schema for the answer, a call is still possible.
  complete(tools + R"(,"response_format":{"type":"json_object"})");
  EXPECT_TRUE(follows(weather));
  EXPECT_TRUE(follows(answer("{}")));
  EXPECT_FALSE(follows(answer("No.")));
}

TEST_F(OutputTest, strict_tools_are_kept_to_their_schema_without_being_forced) {
  start();
  std::string tools = kStrictTools;
  tools.insert(tools.find("\"name\":\"weather\""), "\"strict\":true,");
  complete(tools);
  EXPECT_TRUE(follows(call("weather", R"({"city":"Oslo"})")));
  EXPECT_FALSE(follows(call("weather", "{}")));
  EXPECT_TRUE(follows(call("odd", R"({"a":1})")));
  EXPECT_TRUE(follows(answer("Any words.")));
}

TEST_F(OutputTest, refuses_what_it_cannot_keep) {
  start();
  const std::string tools = kStrictTools;
  expect_refused(R"("response_format":{"type":"json_schema","json_schema":{"name":"x","schema":
                    {"properties":{"a":{"not":{}}}}}})",
                 "response_format.json_schema.schema", "/properties/a: 'not' is not supported");
  expect_refused(R"("response_format":{"type":"json_schema"})", "response_format.json_schema",
                 "missing");
  expect_refused(
      R"("response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":{}}})",
      "response_format.json_schema.name", "wanted 1 to 64");
  expect_refused(R"("guided_regex":"(?=a).")", "guided_regex", "look-around");
  expect_refused(R"("guided_choice":[])", "guided_choice", "a list of 1 to");
  expect_refused(R"("guided_choice":[1])", "guided_choice", "strings only");
  expect_refused(R"("guided_json":"{")", "guided_json", "not valid JSON");
  expect_refused(R"("structured_outputs":{})", "structured_outputs", "wanted one of json");
  expect_refused(R"("regex":"a","guided_choice":["a"])", "regex",
                 "only one of this and guided_choice");
  expect_refused(R"("grammar":"root ::= x")", "grammar", "rule 'x' is used but not defined");
  expect_refused(R"("guided_json":{"$ref":"#"})", "guided_json", "nothing that could be written");
  expect_refused(R"("tool_choice":{"type":"function","function":{"name":"none"}},)" + tools,
                 "tool_choice", "'none' is none of the tools");
  expect_refused(R"("tool_choice":{"type":"function"},)" + tools, "tool_choice", "wanted {");
  std::string strict = tools;
  strict.insert(strict.find("\"name\":\"odd\""), "\"strict\":true,");
  expect_refused(strict, "tools", "the parameters of tool 'odd'");
}

}  // namespace
}  // namespace rose
