// rose: the table of commands. Exit codes: 0 done, 1 failed, 2 wrongly called.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/version.h"

namespace {

using namespace rose;

constexpr Command kCommands[] = {
    {"serve", "serve a model over the OpenAI HTTP API", serve_command},
    {"chat", "chat with a model in the terminal", chat_command},
    {"generate", "complete text, token ids or a file of prompts", generate_command},
    {"eval", "share of a file's answers given exactly; or how far two recipes are apart",
     eval_command},
    {"logits", "the logits of a text's tokens, as a NumPy file", logits_command},
    {"tokenize", "text to token ids and back, JSON lines in and out", tokenize_command},
    {"render", "conversations to exact Harmony prompts, JSON lines in and out", render_command},
    {"parse", "token ids to messages, JSON lines in and out", parse_command},
    {"top", "watch a running server", top_command},
    {"keys", "make an API key for the keys file", keys_command},
    {"bench", "measure a model on this computer", bench_command},
};

void print_usage(FILE* to) {
  std::fprintf(to, "rose %s: serves gpt-oss models\n\nusage: rose COMMAND [options]\n\n", kVersion);
  for (const Command& command : kCommands)
    std::fprintf(to, "  %-10s %s\n", command.name, command.about);
  std::fprintf(to, "\nrose COMMAND --help shows a command's options, with examples.\n");
}

int run(const Command& command, Arguments arguments) {
  const Status status = command.run(arguments);
  if (status) return 0;
  std::fprintf(stderr, "rose %s: %s\n", command.name, status.error().message.c_str());
  return status.error().kind == ErrorKind::usage ? 2 : 1;
}

}  // namespace

int main(int count, char** values) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error of its write, not our death
  const std::vector<std::string> arguments(values + (count > 0), values + count);
  if (arguments.empty()) {
    print_usage(stderr);
    return 2;
  }
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") {
    print_usage(stdout);
    return 0;
  }
  if (name == "--version" || name == "version") {
    std::printf("rose %s\n", kVersion);
    return 0;
  }
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (name == command.name) return run(command, Arguments(arguments).subspan(1));
    names.push_back(command.name);
  }
  const std::string meant = nearest(name, names);
  std::fprintf(
      stderr, "rose: no command '%s'%s\n", name.c_str(),
      meant.empty() ? "; rose --help lists them" : ("; did you mean " + meant + "?").c_str());
  return 2;
}
