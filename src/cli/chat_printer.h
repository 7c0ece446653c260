// The events of one answer on the terminal: what is thought dimmed, a call as -> name arguments.
#pragma once
#include <cstdio>
#include <string>

#include "cli/word_wrap.h"
#include "text/chat_format.h"

namespace rose {

class ChatPrinter {
 public:
  // `columns`: lines break between words before that; 0: as the terminal breaks them.
  ChatPrinter(bool colour, bool reasoning, int columns = 0)
      : colour_(colour), reasoning_(reasoning), wrap_(columns) {}

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
    std::fputs(wrap_.finish().c_str(), stdout);
    if (begun_) std::fputs(colour_ ? "\033[0m\n" : "\n", stdout);
    std::fflush(stdout);
  }

  std::string thought, said;

 private:
  // A model's text moves no cursor and rings no bell: control characters but line ends and tabs stay out.
  void print(const std::string& text) {
    std::string shown;
    for (const char c : text)
      if (uint8_t(c) >= ' ' ? c != 0x7f : c == '\n' || c == '\t') shown += c;
    std::fputs(wrap_.push(shown).c_str(), stdout);
  }
  void begin(ChatEvent::Kind kind) {
    const bool same_call =
        kind == ChatEvent::Kind::tool_arguments && begun_ && kind_ == ChatEvent::Kind::tool_call;
    if (!same_call) std::fputs(wrap_.finish().c_str(), stdout);
    if (begun_ && !same_call) std::fputs(colour_ ? "\033[0m\n" : "\n", stdout);
    if (colour_ && kind == ChatEvent::Kind::reasoning) std::fputs("\033[2m", stdout);
    if (!colour_ && kind == ChatEvent::Kind::reasoning) std::fputs("(thinking) ", stdout);
    if (kind == ChatEvent::Kind::tool_call) std::fputs("-> ", stdout);
    kind_ = kind;
    begun_ = true;
  }

  bool colour_, reasoning_;
  WordWrap wrap_;
  bool begun_ = false;
  ChatEvent::Kind kind_ = ChatEvent::Kind::content;
};

}  // namespace rose
