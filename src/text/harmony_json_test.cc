// The JSON-lines commands: clear errors, and an answer to anything.
#include "text/harmony_json.h"

#include <gtest/gtest.h>

#include <random>

#include "text/harmony_testing.h"

namespace rose::harmony::testing {
namespace {

std::string render_error(const char* line) {
  const Json got = *render_json(tokenizer(), *parse_json(line));
  EXPECT_FALSE(got.contains("tokens")) << got.dump();
  return got.value("error", "");
}

std::string parse_error(const char* line) {
  const Json got = parse_json_line(tokenizer(), *parse_json(line), true);
  EXPECT_EQ(got["messages"], Json::array());
  return got["error"].is_string() ? got["error"].get<std::string>() : "";
}

TEST(HarmonyJson, errors_say_where_what_was_found_and_what_was_wanted) {
  EXPECT_EQ(render_error("[]"), "found array, wanted an object with \"conversation\"");
  EXPECT_EQ(render_error("{}"), "\"conversation\" is missing");
  EXPECT_EQ(render_error(R"({"conversation":{"messages":3}})"),
            "conversation: messages: found 3, wanted an array");
  EXPECT_EQ(render_error(
                R"({"conversation":{"messages":[{"role":"user","content":"a"},{"role":"bot"}]}})"),
            "conversation: messages[1]: role: found \"bot\", wanted system, developer, user, "
            "assistant or tool");
  EXPECT_EQ(render_error(R"({"conversation":{"messages":[{"role":"user"}]}})"),
            "conversation: messages[0]: \"content\" is missing");
  EXPECT_EQ(
      render_error(
          R"({"conversation":{"messages":[{"role":"user","content":[{"type":"image"}]}]}})"),
      "conversation: messages[0]: content[0]: found \"image\", wanted text, system_content or "
      "developer_content");
  EXPECT_EQ(
      render_error(
          R"({"conversation":{"messages":[{"role":"system","content":[{"type":"system_content",)"
          R"("reasoning_effort":"max"}]}]}})"),
      "conversation: messages[0]: content[0]: reasoning_effort: found \"max\", wanted Low, Medium "
      "or High");
  EXPECT_EQ(
      render_error(
          R"({"conversation":{"messages":[{"role":"developer","content":[{"type":)"
          R"("developer_content","tools":{"functions":{"name":"f","tools":[{"name":1}]}}}]}]}})"),
      "conversation: messages[0]: content[0]: tools.functions: tools[0]: name: found 1, wanted a "
      "string");
  EXPECT_EQ(render_error(R"({"conversation":{"messages":[]},"op":"chat"})"),
            "op: found \"chat\", wanted render, completion or training");
  EXPECT_EQ(parse_error("3"), "found 3, wanted an object with \"tokens\"");
  EXPECT_EQ(parse_error(R"({"tokens":[1,-1]})"), "tokens[1]: found -1, wanted a token id");
  EXPECT_EQ(parse_error(R"({"tokens":[18446744073709551615]})"),
            "tokens[0]: found 18446744073709551615, wanted a token id");
  EXPECT_EQ(parse_error(R"({"tokens":[],"strict":"yes"})"),
            "strict: found \"yes\", wanted true or false");
}

TEST(HarmonyJson, what_is_absent_has_a_default) {
  const auto text = [](const char* line) {
    return (*render_json(tokenizer(), *parse_json(line)))["text"];
  };
  const std::string answered =
      R"("conversation":{"messages":[{"role":"assistant","channel":"analysis","content":"a"},)"
      R"({"role":"assistant","channel":"final","content":"b"}]})";
  const std::string b = "<|start|>assistant<|channel|>final<|message|>b<|end|>";
  const std::string a = "<|start|>assistant<|channel|>analysis<|message|>a<|end|>";
  EXPECT_EQ(text(("{" + answered + "}").c_str()), b);
  EXPECT_EQ(text(("{" + answered + R"(,"auto_drop_analysis":null})").c_str()), a + b);
  EXPECT_EQ(text(("{" + answered + R"(,"op":"completion"})").c_str()), b + "<|start|>assistant");
  EXPECT_EQ(parse_json_line(tokenizer(), *parse_json(R"({"tokens":[]})"), false),
            *parse_json(R"({"messages":[],"error":null})"));
}

// Every node of a value, to be replaced.
void collect(Json& value, std::vector<Json*>& nodes) {
  nodes.push_back(&value);
  if (value.is_structured())
    for (Json& item : value) collect(item, nodes);
}

TEST(HarmonyJson, any_json_gets_an_answer_or_an_error) {
  const Json replacements[] = {nullptr,
                               true,
                               3,
                               -1.5,
                               "text",
                               "",
                               Json::array(),
                               Json::object(),
                               Json::array({1, "a", nullptr}),
                               {{"type", "object"}},
                               1e300};
  std::mt19937 random(1);
  int texts = 0, errors = 0;
  for (const Json& line : goldens("harmony.jsonl", "render"))
    for (int round = 0; round < 100; ++round) {
      Json changed = line;
      std::vector<Json*> nodes;
      for (Json& item : changed["conversation"]) collect(item, nodes);
      *nodes[random() % nodes.size()] = replacements[random() % std::size(replacements)];
      const Json got = *render_json(tokenizer(), changed);
      texts += got.contains("tokens");
      errors += got.contains("error");
    }
  EXPECT_EQ(texts + errors, 38 * 100);
  EXPECT_GT(texts, 500);
  EXPECT_GT(errors, 500);
}

TEST(HarmonyJson, deep_schemas_render_within_the_limit_of_the_parser) {
  std::string schema = "{\"type\":\"string\"}";
  for (int i = 0; i < 60; ++i)
    schema = i % 2 ? "{\"oneOf\":[" + schema + "]}"
                   : "{\"type\":\"object\",\"properties\":{\"p\":" + schema + "}}";
  const std::string line =
      R"({"conversation":{"messages":[{"role":"developer","content":[{"type":"developer_content","tools":)"
      R"({"functions":{"name":"functions","tools":[{"name":"f","description":"","parameters":)" +
      schema + "}]}}}]}]}}";
  EXPECT_TRUE((*render_json(tokenizer(), *parse_json(line))).contains("tokens"));
}

}  // namespace
}  // namespace rose::harmony::testing
