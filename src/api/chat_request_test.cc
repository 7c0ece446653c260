#include "api/chat_request.h"

#include "api/request_property.h"

namespace rose {
namespace {

constexpr const char* kEverything = R"({
  "model": "demo",
  "messages": [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "A"}, "B", {"type": "output_text", "text": "C"}]},
    {"role": "assistant", "content": "Look.", "reasoning": "r", "reasoning_content": "r", "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]},
    {"role": "tool", "tool_call_id": "c1", "content": []},
    {"role": "assistant", "content": null, "refusal": "No.", "tool_calls": []},
    {"role": "assistant", "function_call": {"name": "old", "arguments": "{}"}},
    {"role": "function", "name": "old", "content": {"five": [5]}}
  ],
  "tools": [{"type": "function", "function": {"name": "add", "description": null, "strict": true,
             "parameters": {"type": "object", "properties": {"z": {}, "a": {}}}}}],
  "tool_choice": "auto", "parallel_tool_calls": false, "reasoning_effort": "minimal",
  "chat_template_kwargs": {"reasoning_effort": "high", "enable_thinking": true, "other": 1},
  "reasoning": {"effort": "low"}, "response_format": {"type": "text"},
  "stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": true},
  "temperature": 0.5, "top_p": 0.5, "top_k": 5.0, "min_p": 0.5, "n": 2, "seed": 18446744073709551615,
  "stop": ["a", "b"], "stop_token_ids": [1, 2], "logit_bias": {"1": 5}, "logprobs": true, "top_logprobs": 3,
  "presence_penalty": -1, "frequency_penalty": 1, "repetition_penalty": 1.5, "max_tokens": 20,
  "max_completion_tokens": 30, "n_predict": -1, "min_tokens": 1, "priority": -2, "cache_salt": "x",
  "ignore_eos": false, "include_reasoning": true, "include_stop_str_in_output": false,
  "modalities": ["text"], "functions": [], "echo": false, "length_penalty": 1.0, "audio": null,
  "user": "u", "store": true, "x_new": {}
})";

TEST(ChatRequest, every_shape_of_message_is_read) {
  Problem problem;
  const ChatRequest request = parse_chat_request(*parse_json(kEverything), 2048, problem);
  ASSERT_FALSE(problem) << problem.first->message;
  const std::vector<ChatMessage>& messages = request.prompt.messages;
  ASSERT_EQ(messages.size(), 7u);
  EXPECT_EQ(messages[0].role, ChatMessage::Role::developer);
  EXPECT_EQ(messages[1].content, "ABC");
  EXPECT_EQ(messages[1].name, "Ann");
  EXPECT_EQ(messages[2].content, "Look.");
  EXPECT_EQ(messages[2].reasoning, "r");
  ASSERT_EQ(messages[2].tool_calls.size(), 1u);
  EXPECT_EQ(messages[2].tool_calls[0].id, "c1");
  EXPECT_EQ(messages[2].tool_calls[0].arguments, "{\"a\":1}");
  EXPECT_EQ(messages[3].tool_call_id, "c1");
  EXPECT_EQ(messages[3].content, "");
  EXPECT_EQ(messages[4].content, "No.");
  EXPECT_EQ(messages[5].tool_calls[0].name, "old");
  EXPECT_EQ(messages[6].role, ChatMessage::Role::tool);
  EXPECT_EQ(messages[6].name, "old");
  EXPECT_EQ(messages[6].content, "{\"five\":[5]}");

  ASSERT_EQ(request.prompt.tools.size(), 1u);
  EXPECT_EQ(request.prompt.tools[0].parameters->dump(),
            R"({"type":"object","properties":{"z":{},"a":{}}})");
  EXPECT_EQ(request.prompt.effort, ReasoningEffort::high);
  EXPECT_EQ(request.generate.request.sampling.seed, ~uint64_t(0));
  EXPECT_EQ(request.generate.request.sampling.top_k, 5);
  EXPECT_EQ(request.generate.request.max_tokens, 20);
  EXPECT_EQ(request.strict_tools, std::set<std::string>{"add"});
  EXPECT_EQ(request.ignored, (std::vector<std::string>{"x_new", "chat_template_kwargs.other"}));
}

TEST(ChatRequest, no_value_at_any_place_is_fatal) {
  testing::put_everything_everywhere(kEverything, [](const Json& body, Problem& problem) {
    parse_chat_request(body, 2048, problem);
  });
}

}  // namespace
}  // namespace rose
