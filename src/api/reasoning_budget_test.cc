// Limits on reasoning: whatever the model wants to say, the turn stays legal and the thought ends in time.
#include "api/reasoning_budget.h"

#include "api/server_fixture.h"
#include "base/rng.h"

namespace rose {
namespace {

using testing::Answer;
using testing::demo_tokenizer;
using testing::ServerTest;

class ReasoningTest : public ServerTest {
 protected:
  // What the last request's constraint lets a model say that wants to say `turn`: where a token of it is
  // not allowed, an allowed one is drawn instead, and the rest of `turn` is forgotten.
  std::vector<int> held(const std::string& turn, uint64_t seed = 1) {
    const auto constraint = engine_.requests().back().constraint();
    const std::vector<int> wanted = demo_tokenizer().encode_special(turn);
    std::vector<int> said;
    size_t next = 0;
    while (!constraint->complete() && said.size() < 400) {
      const auto mask = constraint->mask();
      const auto allows = [&](int token) { return mask[size_t(token) / 32] >> (token % 32) & 1; };
      int token = next < wanted.size() ? wanted[next++] : -1;
      if (token < 0 || !allows(token)) {
        next = wanted.size();
        std::vector<int> allowed;
        for (int other = 0; other < demo_tokenizer().vocab(); ++other)
          if (allows(other)) allowed.push_back(other);
        if (allowed.empty()) {
          ADD_FAILURE() << "nothing may be said after " << demo_tokenizer().decode(said);
          break;
        }
        token = allowed[random_bits(seed, said.size()) % allowed.size()];
        // Ends what may end, so that the walk is short.
        for (const char* end : {"\"", "{", "}", "<|message|>", "<|end|>", "<|call|>", "<|return|>"})
          if (const int special = demo_tokenizer().encode_special(end)[0]; allows(special))
            token = special;
      }
      constraint->accept(token);
      said.push_back(token);
      const std::vector<int> stops = format_->stop_tokens();
      if (std::find(stops.begin(), stops.end(), token) != stops.end()) break;
    }
    return said;
  }
  int reasoning_tokens(const std::vector<int>& said) {
    const auto parser = format_->parser({});
    std::vector<ChatEvent> events;
    for (const int token : said) parser->push(token, events);
    parser->finish(events);
    return parser->reasoning_tokens();
  }
  std::string text(const std::vector<int>& said) { return demo_tokenizer().decode(said); }
};

constexpr const char* kLong =
    "<|channel|>analysis<|message|>one two three four five six seven eight nine ten eleven twelve "
    "thirteen fourteen fifteen sixteen "
    "seventeen<|end|><|start|>assistant<|channel|>final<|message|>"
    "Done.<|return|>";

TEST_F(ReasoningTest, every_spelling_of_a_budget_sets_it) {
  start();
  for (const char* fields :
       {R"("reasoning_budget":20)", R"("max_reasoning_tokens":20)", R"("thinking_token_budget":20)",
        R"("thinking_budget":20)", R"("reasoning":{"max_tokens":20})",
        R"("thinking":{"type":"enabled","budget_tokens":20})",
        R"("chat_template_kwargs":{"thinking_budget":20})",
        R"("reasoning_budget":20,"thinking_budget":5000)"}) {
    SCOPED_TRACE(fields);
    complete(fields);
    const std::vector<int> said = held(kLong);
    EXPECT_EQ(reasoning_tokens(said), 20) << text(said);
    EXPECT_TRUE(text(said).starts_with("<|channel|>analysis<|message|>one two")) << text(said);
    EXPECT_NE(text(said).find("<|end|><|start|>assistant<|channel|>final<|message|>"),
              std::string::npos)
        << text(said);
  }
  for (const char* fields : {R"("reasoning_budget":-1)", R"("reasoning_effort":"low")"}) {
    complete(fields);
    EXPECT_FALSE(engine_.requests().back().constraint) << fields;
  }
}

TEST_F(ReasoningTest, what_stays_below_the_budget_is_untouched) {
  start();
  complete(R"("reasoning_budget":100)");
  EXPECT_EQ(text(held(kLong)), kLong);
  const std::string short_thoughts =
      "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>b<|"
      "end|>"
      "<|start|>assistant<|channel|>analysis<|message|>c<|end|><|start|>assistant<|channel|>final"
      "<|message|>d<|return|>";
  const auto said = held(short_thoughts);
  EXPECT_EQ(text(said), short_thoughts);
}

TEST_F(ReasoningTest, no_budget_is_no_reasoning) {
  start();
  for (const char* fields :
       {R"("reasoning_budget":0)", R"("reasoning_effort":"none")",
        R"("reasoning":{"enabled":false})", R"("thinking":{"type":"disabled"})",
        R"("chat_template_kwargs":{"enable_thinking":false})"}) {
    SCOPED_TRACE(fields);
    complete(fields);
    const std::vector<int> said = held(kLong);
    EXPECT_EQ(reasoning_tokens(said), 0);
    EXPECT_TRUE(text(said).starts_with("<|channel|>final<|message|>")) << text(said);
  }
}

TEST_F(ReasoningTest, rules_of_the_turn_hold_before_and_after_the_limit) {
  start();
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object",
         "properties":{"at":{"enum":["a","b"]}},"required":["at"],"additionalProperties":false}}}])";
  const std::string second_thought =
      "<|channel|>analysis<|message|>one "
      "two<|end|><|start|>assistant<|channel|>analysis<|message|>three "
      "four five six seven eight nine ten eleven twelve<|end|>";
  for (uint64_t seed = 0; seed < 20; ++seed) {
    complete(R"("reasoning_budget":18,"tool_choice":"required",)" + tools);
    std::vector<int> said = held(seed % 2 ? kLong : second_thought, seed);
    EXPECT_LE(reasoning_tokens(said), 18 + 6) << text(said);
    const std::string call = text(said);
    EXPECT_NE(call.find("to=functions.look"), std::string::npos) << call;
    EXPECT_TRUE(call.ends_with("\"a\"}<|call|>") || call.ends_with("\"b\"}<|call|>") ||
                call.ends_with("}<|call|>"))
        << call;

    complete(R"("reasoning_budget":18,"guided_choice":["yes","no"])");
    said = held(kLong, seed);
    EXPECT_TRUE(text(said).ends_with("<|channel|>final<|message|>yes<|return|>") ||
                text(said).ends_with("<|channel|>final<|message|>no<|return|>"))
        << text(said);

    complete(R"("reasoning_budget":18,)" + tools);  // free to answer or to call
    said = held(kLong, seed);
    EXPECT_EQ(reasoning_tokens(said), 18);
    EXPECT_TRUE(text(said).ends_with("<|return|>") || text(said).ends_with("<|call|>"))
        << text(said);
  }
}

TEST_F(ReasoningTest, reasoning_can_be_left_out_of_the_answer) {
  start();
  say("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>4<|"
      "return|>");
  for (const char* fields : {R"("include_reasoning":false)", R"("reasoning":{"exclude":true})"})
    EXPECT_FALSE(complete(fields)["choices"][0]["message"].contains("reasoning")) << fields;
}

TEST_F(ReasoningTest, one_call_a_turn_where_that_was_asked) {
  start();
  say("<|channel|>commentary "
      "to=functions.f<|message|>{}<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.g<|message|>{}<|call|>");
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}])";
  EXPECT_EQ(complete(tools)["choices"][0]["message"]["tool_calls"].size(), 2u);
  const Json one = complete(tools + ",\"parallel_tool_calls\":false")["choices"][0];
  EXPECT_EQ(one["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(one["finish_reason"], "tool_calls");
}

TEST_F(ReasoningTest, some_of_the_tools_may_be_called) {
  start();
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}])";
  complete(tools + R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto",
      "tools":[{"type":"function","function":{"name":"g"}}]}})");
  const auto call = [](const char* name) {
    return strf("<|channel|>commentary to=functions.%s <|constrain|>json<|message|>{}<|call|>",
                name);
  };
  EXPECT_EQ(text(held(call("g"))), call("g"));
  EXPECT_NE(text(held(call("f"))), call("f"));
  const Answer refused = post(chat(tools + R"(,"tool_choice":{"type":"allowed_tools","mode":"auto",
      "tools":[{"type":"function","name":"h"}]})"));
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("'h' is none of the tools"), std::string::npos) << refused.body;
}

TEST_F(ReasoningTest, strict_params_refuse_what_nobody_knows) {
  ServeOptions options;
  options.strict_params = true;
  start(options);
  const Answer answer = post(chat("\"wonder\":1"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ((*parse_json(answer.body))["error"]["param"], "wonder");
  EXPECT_EQ((*parse_json(answer.body))["error"]["code"], "unknown_parameter");
  EXPECT_EQ(post(chat("\"user\":\"u\"")).status, 200);
}

}  // namespace
}  // namespace rose
