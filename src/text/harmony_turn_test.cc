// Turns that are held to rules: whatever is written under the masks is Harmony, by the strict parser,
// and its bodies are what was asked.
#include "text/harmony_turn.h"

#include <gtest/gtest.h>

#include "text/grammar/grammar_testing.h"
#include "text/grammar/schema_validator.h"
#include "text/harmony_parser.h"

namespace rose::harmony {
namespace {

using grammar::Matcher;
using grammar::testing::demo_tokenizer;
using grammar::testing::Walk;

const Specials& specials() {
  static const Specials found = *find_specials(demo_tokenizer());
  return found;
}

std::shared_ptr<grammar::Constraint> constrain(const TurnRules& rules) {
  grammar::Grammar grammar;
  const auto made = grammar::testing::constrain(grammar, turn_expr(grammar, specials(), rules),
                                                grammar::testing::demo_trie());
  EXPECT_TRUE(made) << made.error().message;
  return *made;
}

bool follows(const std::shared_ptr<grammar::Constraint>& constraint, std::string_view text) {
  Matcher matcher(constraint);
  for (const int token : demo_tokenizer().encode_special(text))
    if (!matcher.accept(token)) return false;
  return matcher.must_end();
}

std::shared_ptr<const Json> json(const char* text) {
  return std::make_shared<const Json>(*parse_json(text));
}

struct Said {
  Header header;
  std::string text;
};

std::vector<Said> strictly_parsed(const std::vector<int>& tokens) {
  Parser parser(demo_tokenizer(), specials(), Policy::strict, Role::assistant);
  std::vector<Part> parts;
  for (const int token : tokens) {
    const Status pushed = parser.push(token, parts);
    EXPECT_TRUE(pushed) << pushed.error().message;
    if (!pushed) return {};
  }
  EXPECT_EQ(parser.state(), Parser::State::expect_start);
  std::vector<Said> messages;
  for (const Part& part : parts) {
    if (part.kind == Part::Kind::begin) messages.push_back({part.header, ""});
    if (part.kind == Part::Kind::text) messages.back().text += part.text;
  }
  return messages;
}

const char* const kCity =
    R"({"type":"object","properties":{"city":{"type":"string","maxLength":9},"days":{"enum":[1,2]}},
        "required":["city","days"],"additionalProperties":false})";

TEST(HarmonyTurn, a_schema_binds_the_final_text_alone) {
  const auto constraint =
      constrain({.content = {.kind = OutputFormat::Kind::json_schema, .schema = json(kCity)}});
  const std::string document = R"({"city":"Oslo","days":2})";
  EXPECT_TRUE(follows(constraint, "<|channel|>final<|message|>" + document + "<|return|>"));
  EXPECT_TRUE(follows(constraint,
                      "<|channel|>analysis<|message|>Free {thought}.<|end|><|start|>assistant"
                      "<|channel|>analysis<|message|><|end|><|start|>assistant"
                      "<|channel|>final<|message|>" +
                          document + "<|return|>"));
  EXPECT_FALSE(follows(constraint, document + "<|return|>"));
  EXPECT_FALSE(follows(constraint, "<|channel|>analysis<|message|>x<|end|>" + document));
  EXPECT_FALSE(follows(constraint, "<|channel|>analysis<|message|>x<|return|>"));
  EXPECT_FALSE(follows(constraint, "<|channel|>final<|message|>" + document + "<|end|>"));
  EXPECT_FALSE(follows(constraint, "<|channel|>final<|message|>{\"city\":3}<|return|>"));
  EXPECT_FALSE(follows(constraint,
                       "<|channel|>commentary<|message|>Well.<|end|><|start|>assistant"
                       "<|channel|>final<|message|>" +
                           document + "<|return|>"));
}

TEST(HarmonyTurn, calls_are_of_the_tools_that_there_are) {
  const auto constraint = constrain({.may_answer = false,
                                     .calls = {{.name = "weather", .parameters = json(kCity)},
                                               {.name = "any", .parameters = nullptr}}});
  const std::string arguments = R"({"city":"Oslo","days":2})";
  const std::string think = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
  EXPECT_TRUE(follows(constraint, think +
                                      "<|channel|>commentary to=functions.weather "
                                      "<|constrain|>json<|message|>" +
                                      arguments + "<|call|>"));
  EXPECT_TRUE(follows(constraint,
                      " to=functions.weather<|channel|>commentary <|constrain|>json"
                      "<|message|>" +
                          arguments + "<|call|>"));
  EXPECT_TRUE(follows(constraint,
                      "<|channel|>commentary<|message|>One moment.<|end|><|start|>assistant"
                      "<|channel|>commentary to=functions.any<|constrain|>json<|message|>"
                      "{\"x\": [1]}<|call|>"));
  EXPECT_FALSE(follows(constraint, "<|channel|>final<|message|>No.<|return|>"));
  EXPECT_FALSE(follows(constraint,
                       "<|channel|>commentary to=functions.other <|constrain|>json"
                       "<|message|>{}<|call|>"));
  EXPECT_FALSE(follows(constraint,
                       "<|channel|>commentary to=functions.weather <|constrain|>json"
                       "<|message|>{}<|call|>"));
  EXPECT_FALSE(follows(constraint,
                       "<|channel|>commentary to=functions.any <|constrain|>json"
                       "<|message|>{}<|end|>"));
}

TEST(HarmonyTurn, thinking_may_be_left_out_or_ended) {
  TurnRules rules{.thinking = TurnRules::Thinking::none};
  EXPECT_TRUE(follows(constrain(rules), "<|channel|>final<|message|>Yes.<|return|>"));
  EXPECT_FALSE(follows(constrain(rules),
                       "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final"
                       "<|message|>Yes.<|return|>"));
  rules.calls = {{.name = "look", .parameters = nullptr}};
  rules.thinking = TurnRules::Thinking::ends;
  const auto ends = constrain(rules);
  EXPECT_TRUE(follows(ends, "<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>"));
  EXPECT_TRUE(follows(ends,
                      "<|end|><|start|>assistant<|channel|>commentary to=functions.look "
                      "<|constrain|>json<|message|>{}<|call|>"));
  EXPECT_FALSE(follows(ends, "<|channel|>final<|message|>Yes.<|return|>"));
  EXPECT_FALSE(follows(ends, "<|end|><|start|>assistant<|channel|>analysis<|message|>"));
}

TEST(HarmonyTurn, walks_are_harmony) {
  struct Case {
    TurnRules rules;
    bool calls, answers;
  };
  const TurnRules::Call weather = {.name = "weather", .parameters = json(kCity)};
  const OutputFormat city = {.kind = OutputFormat::Kind::json_schema, .schema = json(kCity)};
  const Case cases[] = {
      {{.content = city}, false, true},
      {{.may_answer = false, .calls = {weather}}, true, false},
      {{.content = city, .calls = {weather}}, true, true},
      {{.content = {.kind = OutputFormat::Kind::choice, .choices = {"yes", "no"}}}, false, true},
      {{.calls = {weather}}, true, true},  // strict tools, and words as well
  };
  for (const Case& wanted : cases) {
    const auto constraint = constrain(wanted.rules);
    int ended = 0;
    for (uint64_t seed = 0; seed < 30; ++seed) {
      const Walk walk = grammar::testing::walk(Matcher(constraint), seed, 200);
      if (!walk.ended) continue;
      ++ended;
      const std::vector<Said> messages = strictly_parsed(walk.tokens);
      ASSERT_FALSE(messages.empty());
      const auto& [header, text] = messages.back();
      const bool is_call = header.recipient.has_value();
      EXPECT_TRUE(is_call ? wanted.calls : wanted.answers) << text;
      EXPECT_EQ(walk.tokens.back(), is_call ? specials().call : specials().return_);
      EXPECT_EQ(header.channel, is_call ? "commentary" : "final");
      if (is_call) {
        EXPECT_EQ(header.recipient, "functions.weather");
        EXPECT_EQ(header.content_type, "<|constrain|>json");
      }
      if (is_call || wanted.rules.content.kind == OutputFormat::Kind::json_schema) {
        const auto value = parse_json(text);
        ASSERT_TRUE(value) << text;
        EXPECT_TRUE(grammar::testing::Validator(*json(kCity)).valid(*value)) << text;
      }
      for (size_t i = 0; i + 1 < messages.size(); ++i)
        EXPECT_FALSE(messages[i].header.recipient.has_value());
    }
    EXPECT_GT(ended, 3);
  }
}

TEST(HarmonyTurn, names_the_tool_whose_schema_is_refused) {
  grammar::Grammar grammar;
  const auto turn = turn_expr(grammar, specials(),
                              {.calls = {{.name = "f", .parameters = json(R"({"not":{}})")}}});
  ASSERT_FALSE(turn);
  EXPECT_EQ(turn.error().message, "the parameters of tool 'f': the schema: 'not' is not supported");
}

TEST(HarmonyTurn, the_prompt_shows_the_schema) {
  const auto format = *make_chat_format("harmony", demo_tokenizer());
  ChatPrompt prompt;
  prompt.messages.push_back({.role = ChatMessage::Role::system, .content = "Be brief."});
  prompt.messages.push_back({.role = ChatMessage::Role::user, .content = "Hi"});
  prompt.output = {.kind = OutputFormat::Kind::json_schema,
                   .name = "shopping_list",
                   .description = "What to buy",
                   .schema = json(R"({"type": "object"})")};
  const auto tokens = format->render(prompt);
  ASSERT_TRUE(tokens);
  const std::string text = demo_tokenizer().decode(*tokens);
  EXPECT_NE(
      text.find("<|start|>developer<|message|># Instructions\n\nBe brief.\n\n# Response "
                "Formats\n\n## shopping_list\n\n// What to buy\n{\"type\":\"object\"}<|end|>"),
      std::string::npos)
      << text;
}

}  // namespace
}  // namespace rose::harmony
