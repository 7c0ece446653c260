#include "api/responses_request.h"

#include "api/ids.h"
#include "base/check.h"

namespace rose {

namespace {

// clang-format off
constexpr KnownField kResponses[] = {
    {"input", Use::works}, {"instructions", Use::works}, {"previous_response_id", Use::works}, {"store", Use::works},
    {"background", Use::works}, {"include", Use::works}, {"max_output_tokens", Use::works}, {"text", Use::works}, {"tools", Use::works},
    {"tool_choice", Use::works}, {"parallel_tool_calls", Use::works}, {"top_logprobs", Use::works},
    {"max_tool_calls", Use::nothing}, {"stream_options", Use::nothing},
    {"truncation", Use::refused, "\"disabled\" \"auto\""}, {"conversation", Use::refused, "", "use previous_response_id"},
    {"prompt", Use::refused, "", "use instructions and input"}, {"context_management", Use::refused, "[]"}, {"n", Use::refused, "1"},
};

struct Included {
  const char* name;
  bool ResponsesRequest::* flag;  // null: it is of items that never come
};
constexpr Included kIncluded[] = {
    {"reasoning.encrypted_content", &ResponsesRequest::encrypted_reasoning},
    {"message.output_text.logprobs", nullptr},  // `logprobs`, of the base
    {"message.input_image.image_url", nullptr}, {"file_search_call.results", nullptr}, {"web_search_call.results", nullptr},
    {"web_search_call.action.sources", nullptr}, {"code_interpreter_call.outputs", nullptr},
    {"computer_call_output.output.image_url", nullptr},
};
// clang-format on

void read_include(Fields& fields, ResponsesRequest& into) {
  const Json* include = fields.array("include");
  for (size_t i = 0; include && i < include->size(); ++i) {
    const Included* known = nullptr;
    for (const Included& row : kIncluded)
      if ((*include)[i] == row.name) known = &row;
    if (!known)
      return fields.wrong(strf("include[%zu]", i),
                          dump_json((*include)[i]).substr(0, 80) + " is not known");
    if (known->flag) into.*known->flag = true;
    if (known->name == std::string_view("message.output_text.logprobs")) into.logprobs = true;
  }
  int top = -1;
  fields.read("top_logprobs", top, 0, kMaxLogprobs);
  if (top > 0) into.logprobs = true;
  if (into.logprobs) into.generate.request.sampling.logprobs = std::max(top, 0);
}

void read_input(Fields& fields, ResponsesRequest& into) {
  const Json* input = fields.find("input");
  if (!input) {
    if (into.previous.empty()) fields.wrong("input", "is missing");
    return;
  }
  if (input->is_string()) {
    into.input.push_back({{"type", "message"},
                          {"role", "user"},
                          {"content", Json::array({{{"type", "input_text"}, {"text", *input}}})}});
  } else if (input->is_array()) {
    into.input = *input;
  } else {
    return fields.wrong("input", kind_of(*input) + ", wanted a string or an array of items");
  }
  if (into.input.empty() && into.previous.empty()) fields.wrong("input", "is empty");
  for (size_t i = 0; i < into.input.size(); ++i) {
    Json& item = into.input[i];
    if (!item.is_object()) continue;  // append_items says so
    const bool reference = item.contains("id") && !item.contains("role");
    if (!item.contains("type") || item["type"].is_null())
      item["type"] = reference ? "item_reference" : "message";
    if (item.contains("id") && item["id"].is_string()) continue;
    if (item["type"] == "item_reference")
      fields.wrong(strf("input[%zu].id", i),
                   item.contains("id") ? kind_of(item["id"]) + ", wanted a string" : "is missing");
    item["id"] = new_id("msg_", 32);
  }
}

void read_text_options(Fields& fields, ResponsesRequest& into) {
  const Json* text = fields.object("text");
  if (!text) return;
  Fields inner(*text, "text.", fields.problem());
  if (const Json* format = inner.object("format")) {
    Fields format_fields(*format, "text.format.", fields.problem());
    read_text_format(format_fields, into.output);
  }
  if (const Json* verbosity = inner.find("verbosity"); verbosity && *verbosity != "medium")
    inner.wrong("verbosity", "is not supported");
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

// The tools as they are kept: flat, with every field.
Json echo_tools(const ResponsesRequest& request) {
  Json tools = Json::array();
  for (const Tool& tool : request.prompt.tools) {
    if (const auto custom = request.custom_tools.find(tool.name);
        custom != request.custom_tools.end())
      tools.push_back({{"type", "custom"},
                       {"name", tool.name},
                       {"description", or_null(tool.description)},
                       {"format", *custom->second}});
    else
      tools.push_back({{"type", "function"},
                       {"name", tool.name},
                       {"description", or_null(tool.description)},
                       {"parameters", tool.parameters ? *tool.parameters : Json()},
                       {"strict", request.strict_tools.contains(tool.name)}});
  }
  return tools;
}

Json effort_name(const ResponsesRequest& request) {
  if (request.reasoning_budget == 0) return "none";
  switch (request.prompt.effort) {
    case ReasoningEffort::low: return "low";
    case ReasoningEffort::medium: return "medium";
    case ReasoningEffort::high: return "high";
  }
  return nullptr;
}

void fill_echo(const Json& body, ResponsesRequest& request) {
  const SamplingParams& sampling = request.generate.request.sampling;
  const auto as_asked = [&](const char* name, Json otherwise) {
    return body.contains(name) && !body[name].is_null() ? body[name] : otherwise;
  };
  const Json text = as_asked("text", Json::object());
  const int most = request.generate.request.max_tokens;
  request.echo = {
      {"background", request.background},
      {"instructions", or_null(request.instructions)},
      {"max_output_tokens", most > 0 ? Json(most) : Json()},
      {"max_tool_calls", as_asked("max_tool_calls", nullptr)},
      {"metadata", as_asked("metadata", Json::object())},
      {"parallel_tool_calls", as_asked("parallel_tool_calls", true)},
      {"previous_response_id", or_null(request.previous)},
      {"prompt_cache_key", as_asked("prompt_cache_key", nullptr)},
      {"reasoning", {{"effort", effort_name(request)}, {"summary", nullptr}}},
      {"safety_identifier", as_asked("safety_identifier", nullptr)},
      {"service_tier", "default"},
      {"store", request.store},
      {"temperature", sampling.temperature},
      {"text", {{"format", text.value("format", Json{{"type", "text"}})}, {"verbosity", "medium"}}},
      {"tool_choice", as_asked("tool_choice", request.prompt.tools.empty() ? "none" : "auto")},
      {"tools", echo_tools(request)},
      {"top_logprobs", std::max(sampling.logprobs, 0)},
      {"top_p", sampling.top_p},
      {"truncation", as_asked("truncation", "disabled")},
      {"user", as_asked("user", nullptr)},
  };
}

}  // namespace

KnownFields responses_fields() { return kResponses; }

ResponsesRequest parse_responses_request(const Json& body, int vocab, Problem& problem) {
  ResponsesRequest request;
  Fields fields(body, "", problem);
  check_names(body, {responses_fields(), generate_fields(), reasoning_fields(), output_fields()},
              fields, request.ignored);
  fields.read("model", request.model);
  fields.read("instructions", request.instructions);
  fields.read("previous_response_id", request.previous);
  fields.read("store", request.store);
  fields.read("background", request.background);
  fields.read("stream", request.stream);
  read_input(fields, request);
  read_tools(fields, ToolStyle::flat, request);
  read_tool_choice(fields, ToolStyle::flat, request);
  read_reasoning_fields(fields, request);
  read_generate_fields(fields, vocab, request.generate);
  read_include(fields, request);
  read_output_fields(fields, request.output);
  read_text_options(fields, request);
  request.prompt.output = request.output.format;
  if (const Json* metadata = fields.find("metadata"); metadata && !metadata->is_object())
    fields.wrong("metadata", kind_of(*metadata) + ", wanted an object");
  if (!problem) fill_echo(body, request);
  return request;
}

}  // namespace rose
