#include "cli/json_lines.h"

#include <fstream>
#include <iostream>

#include "base/check.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/session.h"
#include "text/harmony_json.h"
#include "text/tokenize_json.h"

namespace rose {

Status for_each_json_line(const std::string& path,
                          const std::function<Result<Json>(const Json&)>& body) {
  std::ifstream file;
  const bool standard = path.empty() || path == "-";
  if (!standard) {
    file.open(path);
    if (!file) return fail(ErrorKind::not_found, "cannot read " + path);
  }
  std::istream& in = standard ? std::cin : file;

  int number = 0, failed = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<Json> value = parse_json(line);
    const Result<Json> answer = value ? body(*value) : value;
    if (!answer) ++failed;
    std::cout << dump_json(answer ? *answer : Json{{"error", answer.error().message}}) << '\n';
    std::cout.flush();
    if (!std::cout) return fail(ErrorKind::io, "standard output was closed");
  }
  if (failed > 0)
    return fail(ErrorKind::invalid, strf("%d of %d lines could not be read", failed, number));
  return Done{};
}

namespace {

struct JsonLineOptions {
  std::string file;
  std::string tokenizer;
  bool tolerant = false;
  bool with_tolerant = false;

  template <class Visit>
  void each(Visit&& visit) {
    visit("file", file, "JSON lines; none or -: standard input");
    visit("--tokenizer", tokenizer,
          "a tokenizer.json, a .tiktoken file or a model folder; none: the demo model's");
    if (with_tolerant)
      visit("--tolerant", tolerant,
            "recover from anything, as the server does; nothing is an error");
  }
};

template <class Body>
Status json_line_command(const CommandHelp& help, JsonLineOptions options, Arguments arguments,
                         const Body& body) {
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  const std::unique_ptr<Tokenizer> tokenizer = TRY(open_tokenizer(options.tokenizer, ""));
  return for_each_json_line(options.file,
                            [&](const Json& line) { return body(*tokenizer, line, options); });
}

}  // namespace

Status tokenize_command(Arguments arguments) {
  return json_line_command(
      {"tokenize", "Text to token ids and back, one JSON object a line.",
       "  echo '{\"text\":\"Hello\"}' | rose tokenize\n"
       "  echo '{\"text\":\"<|start|>user\",\"special\":true}' | rose tokenize\n"
       "  echo '{\"tokens\":[13225]}' | rose tokenize --tokenizer o200k_base.tiktoken\n"},
      {}, arguments, [](const Tokenizer& tokenizer, const Json& line, const JsonLineOptions&) {
        return tokenize_json(tokenizer, line);
      });
}

Status render_command(Arguments arguments) {
  return json_line_command(
      {"render",
       "Conversations to the exact Harmony prompt and its token ids, one JSON object a line.",
       "  rose render conversations.jsonl\n"
       "  echo "
       "'{\"conversation\":{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
       "\"text\":\"Hi\"}]}]},\"op\":\"completion\",\"next_role\":\"assistant\"}' | rose render\n"},
      {}, arguments, [](const Tokenizer& tokenizer, const Json& line, const JsonLineOptions&) {
        return render_json(tokenizer, line);
      });
}

Status parse_command(Arguments arguments) {
  return json_line_command(
      {"parse", "Token ids of a completion to Harmony messages, one JSON object a line.",
       "  echo '{\"tokens\":[200005,17196,200008,12194,200002],\"role\":\"assistant\"}' |\n"
       "      rose parse --tokenizer o200k_base.tiktoken\n"
       "  rose parse --tolerant completions.jsonl\n"},
      {.with_tolerant = true}, arguments,
      [](const Tokenizer& tokenizer, const Json& line, const JsonLineOptions& options) {
        return Result<Json>(parse_json_line(tokenizer, line, options.tolerant));
      });
}

}  // namespace rose
