// The events of one answer on the terminal: what is thought dimmed, a call as -> name arguments.
#pragma once
#include <cstdio>
#include <string>

#include "text/chat_format.h"

namespace rose {

class ChatPrinter {
 public:
  ChatPrinter(bool colour, bool reasoning) : colour_(colour), reasoning_(reasoning) {}

  void show(const ChatEvent& event) {
    if (event.kind == ChatEvent::Kind::reasoning) {
      thought += event.text;
      if (!reasoning_) return;
    }
    if (event.kind == ChatEvent::Kind::content) said += event.text;
    if (event.kind == ChatEvent::Kind::tool_call || event.kind != kind_ || !begun_)
      begin(event.kind);
    print(event.text);
    if (event.kind == ChatEvent::Kind::tool_call) std::fputc(' ', stdout);
    std::fflush(stdout);
  }
  void end() {
    if (begun_) std::fputs(colour_ ? "\033[0m\n" : "\n", stdout);
    std::fflush(stdout);
  }

  std::string thought, said;

 private:
  // A model's text moves no cursor and rings no bell: control characters but line ends and tabs stay out.
  static void print(const std::string& text) {
    for (const char c : text)
      if (uint8_t(c) >= ' ' ? c != 0x7f : c == '\n' || c == '\t') std::fputc(c, stdout);
  }
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

}  // namespace rose
