#include "api/request_property.h"
#include "api/messages_request.h"
#include "api/responses_request.h"

namespace rose {
namespace {

using testing::put_everything_everywhere;

constexpr const char* kResponses = R"({
  "model": "demo", "instructions": "Be brief.", "previous_response_id": null, "store": true, "background": false,
  "input": [
    {"role": "developer", "content": "Be brief."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "A"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "content": [{"type": "reasoning_text", "text": "r"}],
     "encrypted_content": "rose:r"},
    {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "4"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}, {"type": "refusal", "refusal": "no"}]}],
  "tools": [{"type": "function", "name": "add", "description": null, "strict": true, "parameters": {"type": "object"}}],
  "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "add"}]},
  "text": {"format": {"type": "json_schema", "name": "n", "strict": true, "schema": {"type": "object"}}, "verbosity": "medium"},
  "reasoning": {"effort": "low", "summary": "auto", "max_tokens": 100, "enabled": true, "exclude": false},
  "include": ["reasoning.encrypted_content"], "top_logprobs": 2, "max_output_tokens": 20, "metadata": {"a": "b"},
  "parallel_tool_calls": false, "temperature": 0.5, "stream": true, "truncation": "auto", "user": "u"
})";

constexpr const char* kMessages = R"({
  "model": "demo", "max_tokens": 20, "system": [{"type": "text", "text": "Be brief."}],
  "messages": [
    {"role": "user", "content": [{"type": "text", "text": "A"}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "x"},
      {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "4"}]}]}],
  "tools": [{"name": "add", "type": "custom", "description": "d", "strict": true, "input_schema": {"type": "object"}}],
  "tool_choice": {"type": "tool", "name": "add", "disable_parallel_tool_use": true},
  "thinking": {"type": "enabled", "budget_tokens": 100}, "output_config": {"effort": "low"},
  "output_format": {"type": "json_schema", "schema": {"type": "object"}},
  "stop_sequences": ["a"], "temperature": 0.5, "top_k": 5, "stream": true, "metadata": {"user_id": "u"}
})";

TEST(RequestProperty, no_value_at_any_place_of_a_response_is_fatal) {
  put_everything_everywhere(kResponses, [](const Json& body, Problem& problem) {
    ResponsesRequest request = parse_responses_request(body, 2048, problem);
    append_items(request.input, "input", problem, request.prompt.messages);
    if (!problem) (void)turn_rules(request);
  });
}

TEST(RequestProperty, no_value_at_any_place_of_a_message_is_fatal) {
  put_everything_everywhere(kMessages, [](const Json& body, Problem& problem) {
    const TurnRequest request = parse_messages_request(body, 2048, problem);
    if (!problem) (void)turn_rules(request);
  });
}

}  // namespace
}  // namespace rose
