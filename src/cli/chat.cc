// rose chat: a conversation in the terminal. Reasoning is shown dimmed before the answer; Ctrl-C ends
// the answer, not the program; lines from a pipe are answered one after the other.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>

#include "base/check.h"
#include "cli/chat_backend.h"
#include "cli/command.h"

namespace rose {

namespace {

struct ChatOptions {
  ModelOptions model;
  std::string url;
  std::string api_key;
  std::string system;
  std::string effort = "medium";
  bool reasoning = true;
  double temperature = 1;
  double top_p = 1;
  int max_tokens = 0;

  template <class Visit>
  void each(Visit&& visit) {
    model.each(visit);
    visit("--url", url, "talk to this server instead of a model in this process");
    visit("--api-key", api_key, "for --url");
    visit("--system,-s", system, "instructions that stand before the conversation");
    visit("--reasoning-effort,--effort", effort, "low, medium or high");
    visit("--reasoning", reasoning, "show what the model thinks");
    visit("--temperature", temperature, "0: always the likeliest token");
    visit("--top-p", top_p, "sample from the likeliest that hold this share");
    visit("--max-tokens,-n", max_tokens, "of one answer; 0: as many as fit");
  }
};

constexpr const char* kSlashHelp =
    "  /system TEXT   new instructions; the conversation starts over\n"
    "  /effort LEVEL  low, medium or high\n"
    "  /clear         forget the conversation\n"
    "  /help          this list\n"
    "  /bye           leave (also Ctrl-D)\n"
    "  \"\"\"            begins and ends a message of several lines\n"
    "  Ctrl-C         ends the answer\n";

std::atomic<bool> g_interrupted = false;  // set by the signal handler, hence global

Result<ReasoningEffort> parse_effort(const std::string& text) {
  if (text == "low") return ReasoningEffort::low;
  if (text == "medium") return ReasoningEffort::medium;
  if (text == "high") return ReasoningEffort::high;
  return fail(ErrorKind::usage, "reasoning effort '" + text + "', wanted low, medium or high");
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local;
  ::localtime_r(&now, &local);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &local);
  return text;
}

// Prints the events of one answer: what is thought dimmed, a call as name(arguments).
class Printer {
 public:
  Printer(bool colour, bool reasoning) : colour_(colour), reasoning_(reasoning) {}

  void show(const ChatEvent& event) {
    if (event.kind == ChatEvent::Kind::reasoning) {
      thought += event.text;
      if (!reasoning_) return;
    }
    if (event.kind == ChatEvent::Kind::content) said += event.text;
    if (event.kind == ChatEvent::Kind::tool_call || event.kind != kind_ || !begun_)
      begin(event.kind);
    std::fputs(event.text.c_str(), stdout);
    if (event.kind == ChatEvent::Kind::tool_call) std::fputc(' ', stdout);
    std::fflush(stdout);
  }
  void end() {
    if (begun_) std::fputs(colour_ ? "\033[0m\n" : "\n", stdout);
    std::fflush(stdout);
  }

  std::string thought, said;

 private:
  void begin(ChatEvent::Kind kind) {
    const bool same_call =
        kind == ChatEvent::Kind::tool_arguments && begun_ && kind_ == ChatEvent::Kind::tool_call;
    if (begun_ && !same_call) std::fputs(colour_ ? "\033[0m\n" : "\n", stdout);
    if (colour_ && kind == ChatEvent::Kind::reasoning) std::fputs("\033[2m", stdout);
    if (!colour_ && kind == ChatEvent::Kind::reasoning) std::fputs("(thinking) ", stdout);
    if (kind == ChatEvent::Kind::tool_call) std::fputs("-> ", stdout);
    kind_ = kind;
    begun_ = true;
  }

  bool colour_, reasoning_;
  bool begun_ = false;
  ChatEvent::Kind kind_ = ChatEvent::Kind::content;
};

// One message: a line, or all between two lines of """. False at the end of the input.
bool read_message(bool terminal, std::string& message) {
  if (terminal) std::fputs(">>> ", stdout), std::fflush(stdout);
  std::string line;
  if (!std::getline(std::cin, line)) return false;
  message = line;
  if (line.rfind("\"\"\"", 0) != 0) return true;
  message = line.substr(3);
  while (message.size() < 3 || message.compare(message.size() - 3, 3, "\"\"\"") != 0) {
    if (terminal) std::fputs("... ", stdout), std::fflush(stdout);
    if (!std::getline(std::cin, line)) return true;
    message += (message.empty() ? "" : "\n") + line;
  }
  message.resize(message.size() - 3);
  return true;
}

ChatPrompt fresh_prompt(const std::string& system, ReasoningEffort effort) {
  ChatPrompt prompt;
  prompt.effort = effort;
  prompt.current_date = today();
  if (!system.empty())
    prompt.messages.push_back({.role = ChatMessage::Role::developer, .content = system});
  return prompt;
}

// A line that begins with '/'. True: leave.
bool slash_command(const std::string& line, std::string& system, ChatPrompt& prompt) {
  const size_t space = line.find(' ');
  const std::string command = line.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
  if (command == "/bye" || command == "/exit" || command == "/quit") return true;
  if (command == "/clear" || command == "/system") {
    if (command == "/system") system = rest;
    prompt = fresh_prompt(system, prompt.effort);
  } else if (command == "/effort") {
    const Result<ReasoningEffort> effort = parse_effort(rest);
    if (effort)
      prompt.effort = *effort;
    else
      std::printf("%s\n", effort.error().message.c_str());
  } else {
    if (command != "/help" && command != "/?") std::printf("no command %s:\n", command.c_str());
    std::fputs(kSlashHelp, stdout);
  }
  return false;
}

}  // namespace

Status chat_command(Arguments arguments) {
  ChatOptions options;
  const CommandHelp help = {"chat", "Chat with a model in the terminal.",
                            "  rose chat\n"
                            "  rose chat openai/gpt-oss-20b --effort high\n"
                            "  rose chat --url http://127.0.0.1:8000\n"
                            "  echo 'Sort 3, 1, 2.' | rose chat --temperature 0\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};
  ChatPrompt prompt = fresh_prompt(options.system, TRY(parse_effort(options.effort)));

  const std::unique_ptr<ChatBackend> backend =
      options.url.empty() ? TRY(local_chat(options.model))
                          : TRY(remote_chat(options.url, options.model.model, options.api_key));
  const bool terminal = ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO);
  const bool colour = ::isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
  if (terminal) std::printf("%s. /help lists what you can do.\n", backend->name().c_str());

  struct sigaction interrupt = {};
  interrupt.sa_handler = [](int) { g_interrupted = true; };
  interrupt.sa_flags = SA_RESTART;

  for (std::string message; read_message(terminal, message);) {
    if (message.find_first_not_of(" \t\r\n") == std::string::npos) continue;
    if (message[0] == '/') {
      if (slash_command(message, options.system, prompt)) break;
      continue;
    }
    prompt.messages.push_back({.role = ChatMessage::Role::user, .content = message});

    // While an answer runs Ctrl-C ends the answer; at the prompt it ends the program as usual.
    struct sigaction before;
    g_interrupted = false;
    ::sigaction(SIGINT, &interrupt, &before);
    Printer printer(colour, options.reasoning);
    const Result<ChatAnswer> answer = backend->answer(
        prompt,
        {.temperature = options.temperature,
         .top_p = options.top_p,
         .max_tokens = options.max_tokens},
        [&](const ChatEvent& event) { printer.show(event); }, g_interrupted);
    ::sigaction(SIGINT, &before, nullptr);
    printer.end();
    if (!answer) {
      prompt.messages.pop_back();
      if (!terminal) return tl::unexpected<Error>(answer.error());
      std::printf("%s\n", answer.error().message.c_str());
      continue;
    }
    prompt.messages.push_back({.role = ChatMessage::Role::assistant,
                               .content = printer.said,
                               .reasoning = printer.thought});
    if (terminal) {
      const double decoding = answer->seconds - answer->first_token_seconds;
      std::printf(
          "%s%d tokens, %.1f tokens/s, first after %.2f s, %d of %d prompt tokens cached, %s%s\n",
          colour ? "\033[2m" : "", answer->completion_tokens,
          decoding > 0 ? (answer->completion_tokens - 1) / decoding : 0.0,
          answer->first_token_seconds, answer->cached_tokens, answer->prompt_tokens,
          answer->finish_reason.c_str(), colour ? "\033[0m" : "");
    }
  }
  if (terminal) std::printf("\n");
  return Done{};
}

}  // namespace rose
