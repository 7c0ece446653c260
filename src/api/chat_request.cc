#include "api/chat_request.h"

#include <algorithm>

#include "base/check.h"
#include "base/json.h"
#include "text/grammar/json_schema.h"

namespace rose {

namespace {

enum class Use {
  works,
  nothing,  // accepted: it changes nothing that the client could see
  refused,  // unless absent, null, or the value that asks for what happens anyway
};

struct KnownField {
  const char* name;
  Use use;
  const char* harmless =
      "";  // values of a refused field that are fine, as JSON, separated by spaces
  const char* instead = "";  // what to do about it
};

// clang-format off
constexpr KnownField kKnown[] = {
    // OpenAI's
    {"messages", Use::works}, {"model", Use::works}, {"stream", Use::works}, {"stream_options", Use::works},
    {"temperature", Use::works}, {"top_p", Use::works}, {"n", Use::works}, {"stop", Use::works},
    {"max_tokens", Use::works}, {"max_completion_tokens", Use::works}, {"seed", Use::works},
    {"presence_penalty", Use::works}, {"frequency_penalty", Use::works}, {"logit_bias", Use::works},
    {"logprobs", Use::works}, {"top_logprobs", Use::works}, {"tools", Use::works}, {"tool_choice", Use::works},
    {"response_format", Use::works}, {"reasoning_effort", Use::works},
    {"parallel_tool_calls", Use::nothing}, {"user", Use::nothing}, {"metadata", Use::nothing},
    {"store", Use::nothing}, {"service_tier", Use::nothing}, {"safety_identifier", Use::nothing},
    {"prompt_cache_key", Use::nothing}, {"prompt_cache_retention", Use::nothing}, {"prediction", Use::nothing},
    {"audio", Use::refused}, {"modalities", Use::refused, "[\"text\"]"}, {"web_search_options", Use::refused},
    {"verbosity", Use::refused, "\"medium\""},
    {"functions", Use::refused, "[]", "use tools"}, {"function_call", Use::refused, "\"none\" \"auto\"", "use tool_choice"},
    // other servers'
    {"top_k", Use::works}, {"min_p", Use::works}, {"repetition_penalty", Use::works}, {"repeat_penalty", Use::works},
    {"stop_token_ids", Use::works}, {"include_stop_str_in_output", Use::works}, {"ignore_eos", Use::works},
    {"min_tokens", Use::works}, {"min_new_tokens", Use::works}, {"n_predict", Use::works}, {"priority", Use::works},
    {"cache_salt", Use::works}, {"include_reasoning", Use::works}, {"chat_template_kwargs", Use::works}, {"reasoning", Use::works},
    {"request_id", Use::nothing}, {"session_id", Use::nothing}, {"spaces_between_special_tokens", Use::nothing},
    {"skip_special_tokens", Use::refused, "true"}, {"length_penalty", Use::refused, "1 1.0"},
    {"truncate_prompt_tokens", Use::refused}, {"prompt_logprobs", Use::refused, "0"}, {"allowed_token_ids", Use::refused},
    {"bad_words", Use::refused, "[]"}, {"echo", Use::refused, "false"}, {"add_generation_prompt", Use::refused, "true"},
    {"continue_final_message", Use::refused, "false"}, {"structured_outputs", Use::works}, {"guided_json", Use::works},
    {"guided_regex", Use::works}, {"guided_choice", Use::works}, {"guided_grammar", Use::works},
    {"guided_decoding_backend", Use::nothing}, {"guided_whitespace_pattern", Use::refused},
    {"return_token_ids", Use::refused, "false"}, {"thinking_token_budget", Use::refused}, {"kv_transfer_params", Use::refused},
    {"regex", Use::works}, {"ebnf", Use::works}, {"grammar", Use::works}, {"json_schema", Use::works},
    {"use_beam_search", Use::refused, "false"}, {"best_of", Use::refused, "1"}, {"n_probs", Use::refused, "0"},
};
// clang-format on

bool is_harmless(const KnownField& field, const Json& value) {
  return (" " + std::string(field.harmless) + " ").find(" " + dump_json(value) + " ") !=
         std::string::npos;
}

void check_names(const Json& body, Fields& fields, std::vector<std::string>& ignored) {
  for (const auto& [name, value] : body.items()) {
    const auto* known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                     [&](const KnownField& field) { return name == field.name; });
    if (known == std::end(kKnown)) {
      ignored.push_back(name);
    } else if (known->use == Use::refused && !value.is_null() && !is_harmless(*known, value)) {
      std::string what = "is not supported";
      if (*known->instead) what += std::string("; ") + known->instead;
      fields.wrong(name, what);
    }
  }
}

bool decent_tool_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

Tool parse_tool(Fields tool, std::set<std::string>& strict_tools) {
  std::string type = "function";
  tool.read("type", type);
  const Json* function = tool.object("function");
  if (type != "function") {
    tool.wrong("type", "unsupported tool type '" + type + "', only 'function' is possible");
    return {};
  }
  if (!function) {
    tool.wrong("function", "is missing");
    return {};
  }
  Fields fields(*function, tool.path() + "function.", tool.problem());
  Tool parsed;
  fields.read("name", parsed.name);
  fields.read("description", parsed.description);
  if (!decent_tool_name(parsed.name))
    fields.wrong("name", "wanted 1 to 64 of A-Z, a-z, 0-9, '_', '-', '.'");
  if (const Json* parameters = fields.object("parameters"))
    parsed.parameters = std::make_shared<const Json>(*parameters);
  bool strict = false;
  fields.read("strict", strict);
  if (strict) strict_tools.insert(parsed.name);
  return parsed;
}

void parse_tools(Fields& fields, ChatRequest& request) {
  const Json* tools = fields.array("tools");
  std::set<std::string> names;
  for (size_t i = 0; tools && i < tools->size() && !fields.problem(); ++i) {
    const std::string name = strf("tools[%zu]", i);
    if (!(*tools)[i].is_object())
      return fields.wrong(name, kind_of((*tools)[i]) + ", wanted a tool");
    request.prompt.tools.push_back(
        parse_tool(Fields((*tools)[i], name + ".", fields.problem()), request.strict_tools));
    if (!names.insert(request.prompt.tools.back().name).second)
      fields.wrong(name + ".function.name",
                   "'" + request.prompt.tools.back().name + "' is there twice");
  }
}

void parse_tool_choice(Fields& fields, ChatRequest& request) {
  using Choice = ChatRequest::ToolChoice;
  const Json* choice = fields.find("tool_choice");
  if (!choice) return;
  std::vector<Tool>& tools = request.prompt.tools;
  if (*choice == "none") {
    // Left out of the prompt, tools cannot be called; the parser then knows none either.
    request.tool_choice = Choice::none;
    tools.clear();
  } else if (*choice == "required") {
    request.tool_choice = Choice::required;
    if (tools.empty()) fields.wrong("tool_choice", "'required' needs tools");
  } else if (choice->is_object()) {
    const Json named = choice->value("function", Json::object());
    if (choice->value("type", Json()) != "function" || !named.is_object() ||
        !named.value("name", Json()).is_string())
      return fields.wrong("tool_choice",
                          "wanted {\"type\": \"function\", \"function\": {\"name\": …}}");
    request.tool_choice = Choice::required;
    request.forced_tool = named["name"].get<std::string>();
    if (std::none_of(tools.begin(), tools.end(),
                     [&](const Tool& tool) { return tool.name == request.forced_tool; }))
      fields.wrong("tool_choice",
                   "'" + request.forced_tool.substr(0, 80) + "' is none of the tools");
  } else if (*choice != "auto") {
    fields.wrong("tool_choice",
                 kind_of(*choice) + ", wanted \"auto\", \"none\", \"required\" or a function");
  }
}

// Harmony knows three efforts; what lies outside is the nearest.
void parse_effort(Fields fields, const char* name, ReasoningEffort& into) {
  std::string effort;
  fields.read(name, effort);
  if (effort.empty()) return;
  if (effort == "low" || effort == "minimal")
    into = ReasoningEffort::low;
  else if (effort == "medium")
    into = ReasoningEffort::medium;
  else if (effort == "high" || effort == "xhigh" || effort == "max")
    into = ReasoningEffort::high;
  else
    fields.wrong(name, "'" + effort + "' is not possible, wanted low, medium or high");
}

void parse_logprobs(Fields& fields, ChatRequest& request) {
  int top = 0;
  fields.read("logprobs", request.logprobs);
  fields.read("top_logprobs", top, 0, kMaxLogprobs);
  if (top > 0 && !request.logprobs) fields.wrong("top_logprobs", "needs logprobs to be true");
  if (request.logprobs) request.generate.request.sampling.logprobs = top;
}

// A schema that the client did not ask to be kept to the letter, if it can be kept at all.
std::shared_ptr<const Json> if_possible(const std::shared_ptr<const Json>& schema) {
  grammar::Grammar grammar;
  return schema && grammar::json_schema(grammar, *schema) ? schema : nullptr;
}

}  // namespace

std::optional<TurnRules> turn_rules(const ChatRequest& request) {
  using Choice = ChatRequest::ToolChoice;
  const std::vector<Tool>& tools = request.prompt.tools;
  const bool forced = request.tool_choice == Choice::required;
  const bool any_strict = std::any_of(tools.begin(), tools.end(), [&](const Tool& tool) {
    return request.strict_tools.contains(tool.name);
  });
  const OutputFormat& format = request.output.format;
  if (format.kind == OutputFormat::Kind::free && !forced && !any_strict) return std::nullopt;
  TurnRules rules = {.may_answer = !forced, .content = format};
  for (const Tool& tool : tools) {
    if (!request.forced_tool.empty() && tool.name != request.forced_tool) continue;
    const bool strict = request.strict_tools.contains(tool.name);
    rules.calls.push_back({.name = tool.name,
                           .parameters = strict   ? tool.parameters
                                         : forced ? if_possible(tool.parameters)
                                                  : nullptr});
  }
  return rules;
}

ChatRequest parse_chat_request(const Json& body, int vocab, Problem& problem) {
  ChatRequest request;
  if (!body.is_object()) {
    problem.add({.message = "the body is " + kind_of(body) + ", wanted a JSON object"});
    return request;
  }
  Fields fields(body, "", problem);
  check_names(body, fields, request.ignored);
  fields.read("model", request.model);

  const Json* messages = fields.array("messages");
  if (!messages || messages->empty())
    fields.wrong("messages", "is missing or empty");
  else
    request.prompt.messages = parse_messages(*messages, problem);
  parse_tools(fields, request);
  parse_tool_choice(fields, request);

  parse_effort(fields, "reasoning_effort", request.prompt.effort);
  if (const Json* reasoning = fields.object("reasoning"))
    parse_effort(Fields(*reasoning, "reasoning.", problem), "effort", request.prompt.effort);
  if (const Json* keywords = fields.object("chat_template_kwargs")) {
    parse_effort(Fields(*keywords, "chat_template_kwargs.", problem), "reasoning_effort",
                 request.prompt.effort);
    for (const auto& [name, value] : keywords->items())
      if (name != "reasoning_effort") request.ignored.push_back("chat_template_kwargs." + name);
  }

  read_generate_fields(fields, vocab, request.generate);
  parse_logprobs(fields, request);
  read_output_fields(fields, request.output);
  request.prompt.output = request.output.format;
  fields.read("stream", request.stream);
  fields.read("include_reasoning", request.include_reasoning);
  if (const Json* options = fields.object("stream_options")) {
    Fields stream(*options, "stream_options.", problem);
    stream.read("include_usage", request.include_usage);
    stream.read("continuous_usage_stats", request.continuous_usage);
  }
  return request;
}

}  // namespace rose
