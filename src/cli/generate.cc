// rose generate: completes a text, token ids, or each line of a JSON-lines file.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

#include "base/check.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/completions.h"
#include "cli/json_lines.h"
#include "cli/progress.h"
#include "cli/session.h"

namespace rose {

namespace {

struct GenerateOptions {
  ModelOptions model;
  std::string prompt;
  std::vector<int> tokens;
  std::string input;
  bool special = true;
  int max_tokens = 256;
  double temperature = 1;
  int top_k = 0;
  double top_p = 1;
  double min_p = 0;
  uint64_t seed = 0;
  int choices = 1;
  int logprobs = -1;
  bool ignore_eos = false;
  bool json = false;

  template <class Visit>
  void each(Visit&& visit) {
    model.each(visit);
    visit("--prompt,-p", prompt, "the text to go on from; none: standard input");
    visit("--tokens", tokens, "the prompt as token ids, with commas between");
    visit("--input", input,
          "JSON lines of {\"prompt\"} or {\"tokens\"}, answered by JSON lines; - reads standard "
          "input");
    visit("--special", special, "names of special tokens in the text stand for those tokens");
    visit("--max-tokens", max_tokens, "to generate at most");
    visit("--temperature", temperature, "0: always the likeliest token");
    visit("--top-k", top_k, "sample from the k likeliest; 0: all");
    visit("--top-p", top_p, "sample from the likeliest that hold this share");
    visit("--min-p", min_p, "leave out what is less likely than this share of the likeliest");
    visit("--seed", seed, "equal seeds give equal answers");
    visit("--n,-n", choices, "answers to each prompt");
    visit("--logprobs", logprobs, "log-probabilities of each token and this many others; -1: none");
    visit("--ignore-eos", ignore_eos, "do not stop before --max-tokens");
    visit("--json", json, "answer as JSON");
  }
};

const char* name_of(Finish finish) {
  constexpr const char* kNames[] = {"none", "stop", "length", "cancelled", "failed"};
  return kNames[int(finish)];
}

Request make_request(const GenerateOptions& options, const Session& session,
                     std::vector<int> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = {.temperature = float(options.temperature),
                      .top_k = options.top_k,
                      .top_p = float(options.top_p),
                      .min_p = float(options.min_p),
                      .seed = options.seed,
                      .logprobs = options.logprobs};
  request.choices = options.choices;
  request.max_tokens = options.max_tokens;
  if (!options.ignore_eos) request.stop_tokens = session.stop_tokens;
  return request;
}

std::vector<int> ids_of(const Completion& completion) {
  std::vector<int> ids;
  for (const GeneratedToken& token : completion.tokens) ids.push_back(token.token);
  return ids;
}

Json completion_json(const Tokenizer& tokenizer, const Completion& completion) {
  const std::vector<int> ids = ids_of(completion);
  Json json = {{"text", tokenizer.decode(ids)},
               {"tokens", ids},
               {"finish_reason", name_of(completion.finish)}};
  if (completion.tokens.empty() || completion.tokens[0].top.empty()) return json;
  Json& logprobs = json["logprobs"] = Json::array();
  for (const GeneratedToken& token : completion.tokens) {
    Json top = Json::array();
    for (const TokenLogprob& other : token.top)
      top.push_back({{"token", other.token}, {"logprob", other.logprob}});
    logprobs.push_back({{"token", token.token}, {"logprob", token.logprob}, {"top", top}});
  }
  return json;
}

Result<std::vector<int>> prompt_of(const Tokenizer& tokenizer, const Json& line, bool special) {
  if (line.is_object() && line.contains("prompt") && line["prompt"].is_string()) {
    const std::string text = line["prompt"];
    return special ? tokenizer.encode_special(text) : tokenizer.encode(text);
  }
  if (line.is_object() && line.contains("tokens") && line["tokens"].is_array()) {
    std::vector<int> tokens;
    for (const Json& token : line["tokens"]) {
      if (!token.is_number_integer())
        return fail(ErrorKind::invalid, "tokens: not all are numbers");
      tokens.push_back(token.get<int>());
    }
    return tokens;
  }
  return fail(ErrorKind::invalid, "wanted an object with a string prompt or an array tokens");
}

Status generate_file(const GenerateOptions& options, Session& session) {
  return for_each_json_line(options.input, [&](const Json& line) -> Result<Json> {
    std::vector<Request> requests;
    requests.push_back(
        make_request(options, session, TRY(prompt_of(*session.tokenizer, line, options.special))));
    const auto answers = TRY(complete_all(*session.engine, std::move(requests), 1));
    Json choices = Json::array();
    for (const Completion& completion : answers[0])
      choices.push_back(completion_json(*session.tokenizer, completion));
    return Json{{"choices", choices}};
  });
}

}  // namespace

Status generate_command(Arguments arguments) {
  GenerateOptions options;
  const CommandHelp help = {
      "generate", "Complete a text, token ids, or each line of a JSON-lines file.",
      "  rose generate -p '<|start|>user<|message|>Add 12 and 30.<|end|><|start|>assistant'\n"
      "  rose generate openai/gpt-oss-20b --prompt 'Once upon a time' --no-special --max-tokens "
      "64\n"
      "  rose generate --input prompts.jsonl --temperature 0 > answers.jsonl\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  if (options.choices < 1) return fail(ErrorKind::usage, "--n: wanted 1 or more");

  const std::unique_ptr<Session> session = TRY(open_session(options.model));
  if (!options.input.empty()) return generate_file(options, *session);

  const Tokenizer& tokenizer = *session->tokenizer;
  std::vector<int> prompt = options.tokens;
  if (prompt.empty()) {
    if (options.prompt.empty()) options.prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
    prompt = options.special ? tokenizer.encode_special(options.prompt)
                             : tokenizer.encode(options.prompt);
  }
  const int prompt_tokens = int(prompt.size());
  std::vector<Request> requests;
  requests.push_back(make_request(options, *session, std::move(prompt)));
  CountLine line("answers", options.choices);
  const auto answers = TRY(
      complete_all(*session->engine, std::move(requests), 1, [&](int done) { line.show(done); }));
  int64_t generated = 0;
  for (const Completion& completion : answers[0]) {
    generated += int64_t(completion.tokens.size());
    if (options.json)
      std::printf("%s\n", dump_json(completion_json(tokenizer, completion)).c_str());
    else
      std::printf("%s\n", tokenizer.decode(ids_of(completion)).c_str());
  }
  std::fprintf(stderr, "%d prompt tokens, %ld generated in %.2f s (%.1f tokens/s)\n", prompt_tokens,
               long(generated), line.seconds(), double(generated) / line.seconds());
  return Done{};
}

}  // namespace rose
