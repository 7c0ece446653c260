#include "api/chat_request.h"

#include "base/json.h"

namespace rose {

namespace {

// clang-format off
constexpr KnownField kChat[] = {
    {"messages", Use::works}, {"stream_options", Use::works}, {"n", Use::works},
    {"logprobs", Use::works}, {"top_logprobs", Use::works}, {"tools", Use::works}, {"tool_choice", Use::works},
    {"parallel_tool_calls", Use::works},
    {"store", Use::nothing}, {"prediction", Use::nothing},
    {"audio", Use::refused}, {"modalities", Use::refused, "[\"text\"]"}, {"web_search_options", Use::refused},
    {"verbosity", Use::refused, "\"medium\""},
    {"functions", Use::refused, "[]", "use tools"}, {"function_call", Use::refused, "\"none\" \"auto\"", "use tool_choice"},
    {"skip_special_tokens", Use::refused, "true"}, {"echo", Use::refused, "false"},
    {"add_generation_prompt", Use::works}, {"continue_final_message", Use::works},
    {"return_token_ids", Use::works}, {"best_of", Use::refused, "1"},
};
// clang-format on

}  // namespace

KnownFields chat_fields() { return kChat; }

void read_chat_logprobs(Fields& fields, TurnRequest& into) {
  int top = 0;
  fields.read("logprobs", into.logprobs);
  fields.read("top_logprobs", top, 0, kMaxLogprobs);
  if (top > 0 && !into.logprobs) fields.wrong("top_logprobs", "needs logprobs to be true");
  if (into.logprobs) into.generate.request.sampling.logprobs = top;
}

// vLLM's way to let the model go on with an answer.
void read_continuing(Fields& fields, TurnRequest& into) {
  bool continues = false, begins = true;
  fields.read("continue_final_message", continues);
  fields.read("add_generation_prompt", begins);
  if (continues && begins && fields.has("add_generation_prompt"))
    fields.wrong("add_generation_prompt", "contradicts continue_final_message");
  else if (continues)
    continue_last_message(fields, "continue_final_message", into);
  else if (!begins)
    fields.wrong("add_generation_prompt", "false needs continue_final_message");
}

ChatRequest parse_chat_request(const Json& body, int vocab, Problem& problem) {
  ChatRequest request;
  Fields fields(body, "", problem);
  check_names(body, {chat_fields(), generate_fields(), reasoning_fields(), output_fields()}, fields,
              request.ignored);
  fields.read("model", request.model);

  const Json* messages = fields.array("messages");
  if (!messages || messages->empty())
    fields.wrong("messages", "is missing or empty");
  else
    request.prompt.messages = parse_messages(*messages, problem);
  read_tools(fields, ToolStyle::nested, request);
  read_tool_choice(fields, ToolStyle::nested, request);
  read_reasoning_fields(fields, request);
  read_generate_fields(fields, vocab, request.generate);
  read_chat_logprobs(fields, request);
  fields.read("return_token_ids", request.return_token_ids);
  read_output_fields(fields, request.output);
  request.prompt.output = request.output.format;
  read_continuing(fields, request);
  fields.read("stream", request.stream);
  if (const Json* options = fields.object("stream_options")) {
    Fields stream(*options, "stream_options.", problem);
    stream.read("include_usage", request.include_usage);
    stream.read("continuous_usage_stats", request.continuous_usage);
  }
  return request;
}

}  // namespace rose
