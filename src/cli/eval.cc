// rose eval: the share of a file's answers that the model gives exactly, decoding greedily; or, against
// another recipe, how far the two are apart while both are fed the file's text.
#include <cstdio>

#include "base/check.h"
#include "base/json.h"
#include "cli/census.h"
#include "cli/command.h"
#include "cli/completions.h"
#include "cli/eval_against.h"
#include "cli/eval_items.h"
#include "cli/progress.h"
#include "cli/session.h"

namespace rose {

namespace {

struct EvalOptions {
  ModelOptions model;
  std::string file;
  std::string against;
  std::string against_device;
  bool prompts = false;
  bool json = false;
  bool verbose = false;

  template <class Visit>
  void each(Visit&& visit) {
    model.each(visit);
    visit("file", file, "JSON lines of {\"prompt\", \"completion\"}; - reads standard input");
    visit(
        "--against", against,
        "a second recipe, in memory beside the first: compares their predictions of each token of "
        "the answers");
    visit("--against-device", against_device, "its device; none: the same");
    visit("--prompts", prompts, "compare them on the prompts' tokens too");
    visit("--json", json, "one JSON object instead of a table");
    visit("--verbose,-v", verbose, "show the answers that differ");
  }
};

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
      "  rose eval openai/gpt-oss-20b answers.jsonl --recipe bf16 --json\n"
      "  rose eval models/demo/eval.jsonl --recipe q8 --against bf16\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  sort_positionals(options);
  if (options.file.empty()) return fail(ErrorKind::usage, "no file of items named");

  const std::vector<Item> items = TRY(read_items(options.file));
  if (!options.against.empty() || !options.against_device.empty())
    return eval_against({.model = options.model,
                         .against = options.against,
                         .device = options.against_device,
                         .prompts = options.prompts,
                         .json = options.json},
                        items);
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
                         {"census", census_json(session->runtime->loaded)},
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
