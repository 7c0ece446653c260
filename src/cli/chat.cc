// rose chat: a conversation in the terminal. Reasoning is shown dimmed before the answer; Ctrl-C ends
// the answer, not the program; lines from a pipe are answered one after the other.
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/check.h"
#include "cli/chat_commands.h"
#include "cli/chat_printer.h"
#include "cli/command.h"
#include "cli/line_reader.h"

namespace rose {

namespace {

struct ChatOptions {
  ModelOptions model;
  std::string url;
  std::string api_key;
  std::string system;
  std::string effort = "medium";
  bool reasoning = true;
  ChatSampling sampling;

  template <class Visit>
  void each(Visit&& visit) {
    model.each(visit);
    visit("--url", url, "talk to this server instead of a model in this process");
    visit("--api-key,$OPENAI_API_KEY", api_key, "for --url");
    visit("--system,-s", system, "instructions that stand before the conversation");
    visit("--reasoning-effort,--effort", effort, "low, medium or high");
    visit("--reasoning", reasoning, "show what the model thinks");
    sampling.each(visit);
  }
};

std::atomic<bool> g_interrupted = false;  // set by the signal handler, hence global

// A folder of the user's, by the XDG rules: $XDG_STATE_HOME or ~/.local/state. Empty: there is no home.
std::string user_folder(const char* variable, const char* otherwise) {
  if (const char* set = std::getenv(variable); set && set[0] == '/')
    return std::string(set) + "/rose";
  const char* home = std::getenv("HOME");
  return home && home[0] == '/' ? std::string(home) + "/" + otherwise + "/rose" : "";
}

// 0: standard output is no terminal.
int terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// One message: a line, or all between two lines of """.
LineReader::Got read_message(LineReader& lines, std::string& message) {
  using Got = LineReader::Got;
  std::string line;
  if (const Got got = lines.read(">>> ", line); got != Got::line) return got;
  message = line;
  if (!line.starts_with("\"\"\"")) return Got::line;
  message = line.substr(3);
  while (!message.ends_with("\"\"\"")) {
    const Got got = lines.read("... ", line);
    if (got == Got::interrupted) return got;
    if (got == Got::end) return Got::line;
    message += (message.empty() ? "" : "\n") + line;
  }
  message.resize(message.size() - 3);
  return Got::line;
}

void print_numbers(const ChatAnswer& answer, bool colour) {
  const double decoding = answer.seconds - answer.first_token_seconds;
  std::printf(
      "%s%d tokens, %.1f tokens/s, first after %.2f s, %d of %d prompt tokens cached, %s%s\n",
      colour ? "\033[2m" : "", answer.completion_tokens,
      decoding > 0 ? (answer.completion_tokens - 1) / decoding : 0.0, answer.first_token_seconds,
      answer.cached_tokens, answer.prompt_tokens, answer.finish_reason.c_str(),
      colour ? "\033[0m" : "");
}

// Asks, and shows the answer as it comes. What went wrong leaves the conversation as it was.
Status converse(ChatState& state, ChatBackend& backend, const std::string& message, bool terminal,
                bool colour) {
  state.messages.push_back(
      {.role = ChatMessage::Role::user,
       .content = TRY(with_files(message)) + std::exchange(state.attached, "")});

  // While an answer runs Ctrl-C ends the answer; at the prompt it gives up the line.
  struct sigaction interrupt = {}, before;
  interrupt.sa_handler = [](int) { g_interrupted = true; };
  interrupt.sa_flags = SA_RESTART;
  g_interrupted = false;
  ::sigaction(SIGINT, &interrupt, &before);
  ChatPrinter printer(colour, state.show_reasoning, state.wrap_words ? terminal_columns() : 0);
  const Result<ChatAnswer> answer = backend.answer(
      state.prompt(), state.sampling, [&](const ChatEvent& event) { printer.show(event); },
      g_interrupted);
  ::sigaction(SIGINT, &before, nullptr);
  printer.end();
  if (!answer) {
    state.messages.pop_back();
    return tl::unexpected<Error>(answer.error());
  }
  state.messages.push_back({.role = ChatMessage::Role::assistant,
                            .content = printer.said,
                            .reasoning = printer.thought});
  if (terminal && state.show_numbers) print_numbers(*answer, colour);
  return Done{};
}

}  // namespace

Status chat_command(Arguments arguments) {
  ChatOptions options;
  const CommandHelp help = {"chat", "Chat with a model in the terminal.",
                            "  rose chat\n"
                            "  rose chat openai/gpt-oss-20b --effort high\n"
                            "  rose chat --url http://127.0.0.1:8000\n"
                            "  echo 'Sort 3, 1, 2.' | rose chat --temperature 0\n"
                            "  echo 'What is wrong in @main.c?' | rose chat openai/gpt-oss-20b\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  ChatState state;
  state.system = options.system;
  state.effort = TRY(parse_effort(options.effort));
  state.sampling = options.sampling;
  state.show_reasoning = options.reasoning;

  const auto open = [&](const std::string& model) {
    ModelOptions other = options.model;
    other.model = model;
    return options.url.empty() ? local_chat(other)
                               : remote_chat(options.url, model, options.api_key);
  };
  std::unique_ptr<ChatBackend> backend = TRY(open(options.model.model));
  ChatHost host{state, backend, open, user_folder("XDG_DATA_HOME", ".local/share") + "/chats"};

  const bool terminal = ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO);
  const bool colour = ::isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
  if (terminal) std::printf("%s. /? lists what you can do.\n", backend->name().c_str());
  const std::string state_folder = user_folder("XDG_STATE_HOME", ".local/state");
  const std::unique_ptr<LineReader> lines =
      terminal
          ? edited_lines(stdin, stdout, state_folder.empty() ? "" : state_folder + "/chat_history",
                         slash_commands)
          : plain_lines();

  for (std::string message;;) {
    const LineReader::Got got = read_message(*lines, message);
    if (got == LineReader::Got::end) break;
    if (got == LineReader::Got::interrupted) {
      std::printf("\nCtrl-D or /bye leaves.\n");
      continue;
    }
    if (message.find_first_not_of(" \t\r\n") == std::string::npos) continue;
    if (state.keep_history) lines->remember(message);
    if (message[0] == '/') {
      const SlashResult result = slash_command(host, message);
      std::fputs(result.text.c_str(), stdout);
      std::fflush(stdout);
      if (result.leave) return Done{};
      continue;
    }
    const Status status = converse(state, *backend, message, terminal, colour);
    if (!status && !terminal) return status;
    if (!status) std::printf("%s\n", status.error().message.c_str());
  }
  if (terminal) std::printf("\n");
  return Done{};
}

}  // namespace rose
