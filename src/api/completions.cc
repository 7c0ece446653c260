// POST /v1/completions: a prompt as text or tokens, continued as text without any chat format.
#include <ctime>

#include "api/completions_answer.h"
#include "api/ids.h"
#include "api/intake.h"
#include "api/known_fields.h"
#include "api/routes.h"
#include "api/turn.h"
#include "base/check.h"
#include "base/json.h"
#include "text/plain_format.h"

namespace rose {

namespace {

constexpr size_t kMaxPrompts = 128;
constexpr int kDefaultMaxTokens = 16;  // OpenAI's

// clang-format off
constexpr KnownField kCompletions[] = {
    {"prompt", Use::works}, {"stream_options", Use::works}, {"n", Use::works}, {"logprobs", Use::works}, {"echo", Use::works},
    {"add_special_tokens", Use::nothing}, {"skip_special_tokens", Use::works}, {"best_of", Use::works},
    {"suffix", Use::refused, "\"\"", "put what comes before the gap into the prompt"}, {"prompt_embeds", Use::refused},
    {"return_token_ids", Use::refused, "false"},
};
// clang-format on

// Names of special tokens become these: prompts of this API are written by hand.
void read_prompts(const ApiContext& context, Fields& fields,
                  std::vector<std::vector<int>>& prompts) {
  const Json* prompt = fields.find("prompt");
  if (!prompt) return fields.wrong("prompt", "is missing");
  const int vocab = context.tokenizer.vocab();
  const auto is_token = [&](const Json& value) {
    return value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() < vocab;
  };
  const auto read_tokens = [&](const std::string& name, const Json& list) {
    std::vector<int> tokens;
    for (const Json& value : list) {
      if (!is_token(value))
        return fields.wrong(
            name, strf("has %s, wanted token ids in 0..%d", kind_of(value).c_str(), vocab - 1));
      tokens.push_back(value.get<int>());
    }
    prompts.push_back(std::move(tokens));
  };
  const auto read_one = [&](const std::string& name, const Json& value) {
    if (value.is_string())
      prompts.push_back(context.tokenizer.encode_special(value.get_ref<const std::string&>()));
    else if (value.is_array())
      read_tokens(name, value);
    else
      fields.wrong(name, kind_of(value) + ", wanted a string, token ids, or a list of these");
  };
  const bool several = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  if (!several) {
    read_one("prompt", *prompt);
  } else if (prompt->size() > kMaxPrompts) {
    fields.wrong("prompt",
                 strf("has %zu prompts, at most %zu are possible", prompt->size(), kMaxPrompts));
  } else {
    for (size_t i = 0; i < prompt->size() && !fields.problem(); ++i)
      read_one(strf("prompt[%zu]", i), (*prompt)[i]);
  }
  for (const std::vector<int>& tokens : prompts)
    if (tokens.empty()) fields.wrong("prompt", "is empty");
}

void read_own_fields(Fields& fields, TurnRequest& turn, CompletionsAnswerOptions& options) {
  int top = -1, best_of = 0;
  fields.read("logprobs", top, 0, kMaxLogprobs);
  options.logprobs = top >= 0;
  turn.generate.request.sampling.logprobs = top;
  fields.read("echo", options.echo);
  fields.read("best_of", best_of, 1, kMaxPrompts);
  if (best_of > 0 && best_of != turn.generate.request.choices)
    fields.wrong("best_of", strf("%d is not n, %d: ranking choices is not supported", best_of,
                                 turn.generate.request.choices));
  fields.read("stream", turn.stream);
  if (const Json* stream = fields.object("stream_options")) {
    Fields inner(*stream, "stream_options.", fields.problem());
    inner.read("include_usage", options.include_usage);
    inner.read("continuous_usage_stats", options.continuous_usage);
  }
}

// All of the prompt but its first token is said like an answer, and gets its log-probabilities.
void let_say(Request& request) {
  request.opening.assign(request.prompt.begin() + 1, request.prompt.end());
  request.prompt.resize(1);
  request.max_tokens += int(request.opening.size());
  if (request.min_tokens > 0) request.min_tokens += int(request.opening.size());
}

void plan(ApiContext& context, TurnRequest& turn, std::vector<std::vector<int>> prompts,
          bool show_specials, bool says_prompt, Prepared& prepared) {
  Request request = std::move(turn.generate.request);
  if (request.max_tokens == 0) request.max_tokens = std::max(kDefaultMaxTokens, request.min_tokens);
  prepared.plan.choice = {.stop = turn.generate.stop,
                          .include_stop = turn.generate.include_stop,
                          .min_tokens = request.min_tokens,
                          .stop_tokens = request.stop_tokens};
  prepared.plan.says_prompt = says_prompt;
  prepared.plan.parser = [&context, show_specials] {
    return make_plain_parser(context.tokenizer, show_specials);
  };
  if (!turn.generate.ignore_eos)
    for (const int token : context.format.stop_tokens()) request.stop_tokens.push_back(token);
  if (turn.output.format.kind != OutputFormat::Kind::free) {
    auto constraint = context.text_constraints.find({.content = turn.output.format});
    if (!constraint)
      return prepared.problem.add(
          {.message = constraint.error().message, .param = turn.output.field});
    request.constraint = std::move(*constraint);
  }
  for (std::vector<int>& prompt : prompts) {
    check_length(context, int(prompt.size()), request.max_tokens, "prompt", prepared.problem);
    prepared.plan.requests.push_back(request);
    prepared.plan.requests.back().prompt = std::move(prompt);
    if (says_prompt && !prepared.problem) let_say(prepared.plan.requests.back());
  }
}

void prepare_completion(ApiContext& context, const Json& body, Prepared& prepared) {
  Fields fields(body, "", prepared.problem);
  check_names(body, {completions_fields(), generate_fields(), output_fields()}, fields,
              prepared.ignored);
  TurnRequest turn;
  CompletionsAnswerOptions options = {.id = new_id("cmpl-", 32),
                                      .fingerprint = "rose-" + context.model.version,
                                      .created = std::time(nullptr)};
  fields.read("model", turn.model);
  check_model(context, turn.model, prepared.problem);
  options.model = turn.model;
  read_generate_fields(fields, context.tokenizer.vocab(), turn.generate);
  read_own_fields(fields, turn, options);
  read_output_fields(fields, turn.output);
  bool skip_specials = true;
  fields.read("skip_special_tokens", skip_specials);
  options.shows_specials = !skip_specials;
  std::vector<std::vector<int>> prompts;
  read_prompts(context, fields, prompts);
  if (prepared.problem) return;
  options.choices = int(prompts.size()) * turn.generate.request.choices;
  const bool says_prompt = options.echo && options.logprobs;
  if (says_prompt) options.echo = false;
  for (const std::vector<int>& prompt : prompts)
    for (int i = 0; options.echo && i < turn.generate.request.choices; ++i)
      options.prompts.push_back(context.tokenizer.decode(prompt));
  plan(context, turn, std::move(prompts), !skip_specials, says_prompt, prepared);
  prepared.answer = [&context, options, stream = turn.stream](Exchange exchange,
                                                              Headers headers) mutable {
    options.headers = std::move(headers);
    return stream ? make_completions_stream(exchange, context.tokenizer, std::move(options))
                  : make_completions_body(exchange, context.tokenizer, std::move(options));
  };
}

}  // namespace

KnownFields completions_fields() { return kCompletions; }

void post_completions(ApiContext& context, Exchange exchange) {
  answer_by_generation(context, std::move(exchange), prepare_completion);
}

}  // namespace rose
