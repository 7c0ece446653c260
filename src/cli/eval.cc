// rose eval: the share of a file's answers that the model gives exactly, decoding greedily.
#include <cstdio>
#include <fstream>
#include <iostream>

#include "base/check.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/completions.h"
#include "cli/progress.h"
#include "cli/session.h"

namespace rose {

namespace {

struct EvalOptions {
  ModelOptions model;
  std::string file;
  bool json = false;
  bool verbose = false;

  template <class Visit>
  void each(Visit&& visit) {
    model.each(visit);
    visit("file", file, "JSON lines of {\"prompt\", \"completion\"}; - reads standard input");
    visit("--json", json, "one JSON object instead of a table");
    visit("--verbose,-v", verbose, "show the answers that differ");
  }
};

struct Item {
  std::string prompt, completion;
};

Result<std::vector<Item>> read_items(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) return fail(ErrorKind::not_found, "cannot read " + path);
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::vector<Item> items;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string at = strf("%s, line %d", path.c_str(), number);
    const Json value = TRY(within(parse_json(line), at));
    if (!value.is_object() || !value.contains("prompt") || !value.contains("completion") ||
        !value["prompt"].is_string() || !value["completion"].is_string())
      return fail(ErrorKind::invalid, at + ": wanted an object with strings prompt and completion");
    items.push_back({value["prompt"], value["completion"]});
  }
  if (items.empty()) return fail(ErrorKind::invalid, path + ": no items");
  return items;
}

// `rose eval FILE` and `rose eval MODEL FILE`: a name alone is the file.
void sort_positionals(EvalOptions& options) {
  if (options.file.empty()) std::swap(options.model.model, options.file);
}

}  // namespace

Status eval_command(Arguments arguments) {
  EvalOptions options;
  const CommandHelp help = {
      "eval", "The share of a file's answers that a model gives exactly, decoding greedily.",
      "  rose eval models/demo/eval.jsonl\n"
      "  rose eval openai/gpt-oss-20b answers.jsonl --recipe bf16 --json\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  sort_positionals(options);
  if (options.file.empty()) return fail(ErrorKind::usage, "no file of items named");

  const std::vector<Item> items = TRY(read_items(options.file));
  const std::unique_ptr<Session> session = TRY(open_session(options.model));
  const Tokenizer& tokenizer = *session->tokenizer;

  std::vector<Request> requests;
  int64_t prompt_tokens = 0, answer_tokens = 0;
  for (const Item& item : items) {
    const std::vector<int> wanted = tokenizer.encode_special(item.completion);
    Request request;
    request.prompt = tokenizer.encode_special(item.prompt);
    request.sampling.temperature = 0;
    request.max_tokens = int(wanted.size()) + 16;  // one that has not stopped by then is wrong
    request.stop_tokens = session->stop_tokens;
    prompt_tokens += int64_t(request.prompt.size());
    requests.push_back(std::move(request));
  }

  CountLine line("answers", int(items.size()));
  const auto completions =
      TRY(complete_all(*session->engine, std::move(requests), options.model.max_num_seqs,
                       [&](int done) { line.show(done); }));
  line.finish();

  int exact = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    std::vector<int> tokens;
    for (const GeneratedToken& token : completions[i][0].tokens) tokens.push_back(token.token);
    answer_tokens += int64_t(tokens.size());
    const std::string answer = tokenizer.decode(tokens);
    if (answer == items[i].completion)
      ++exact;
    else if (options.verbose)
      std::fprintf(stderr, "item %zu\n  wanted %s\n  found  %s\n", i + 1,
                   items[i].completion.c_str(), answer.c_str());
  }
  const double share = double(exact) / double(items.size());
  const double seconds = line.seconds();
  if (options.json) {
    const Json report = {{"model", session->name},
                         {"recipe", session->runtime->loaded.recipe->name},
                         {"backend", session->runtime->loaded.ops->name},
                         {"exact", share},
                         {"items", items.size()},
                         {"prompt_tokens", prompt_tokens},
                         {"completion_tokens", answer_tokens},
                         {"seconds", seconds}};
    std::printf("%s\n", dump_json(report).c_str());
  } else {
    std::printf("exact    %.4f  (%d of %zu)\n", share, exact, items.size());
    std::printf("tokens   %ld prompt, %ld answered in %.1f s\n", long(prompt_tokens),
                long(answer_tokens), seconds);
  }
  return Done{};
}

}  // namespace rose
