// What a ChatML model says, as events: text between <think> tags is reasoning, JSON between
// <tool_call> tags is a call, the rest is content. New lines around the tags belong to them.
//
// A call comes out once it is whole; what is between its tags and no call is content. A first
// </think> without its <think> is passed over.
#pragma once
#include <string>

#include "text/chat_format.h"

namespace rose {

class ChatmlStream final : public StreamParser {
 public:
  explicit ChatmlStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void push(int token, std::vector<ChatEvent>& events) override;
  void finish(std::vector<ChatEvent>& events) override;
  int reasoning_tokens() const override { return reasoning_tokens_; }
  bool in_reasoning() const override { return inside_ == Inside::thought; }

 private:
  enum class Inside { content, thought, call };

  void take(std::string_view text, std::vector<ChatEvent>& events);
  void text(std::string_view piece, std::vector<ChatEvent>& events);
  void say(ChatEvent::Kind kind, std::string piece, std::vector<ChatEvent>& events);
  void enter(Inside next, std::vector<ChatEvent>& events);
  void call(std::vector<ChatEvent>& events);

  const Tokenizer& tokenizer_;
  Utf8Stream utf8_;
  Inside inside_ = Inside::content;
  std::string held_;      // may be the beginning of a tag
  std::string newlines_;  // may belong to a tag
  std::string call_;      // between its tags
  bool begun_ = false;    // this section has said something
  bool said_reasoning_ = false, said_content_ = false;
  int calls_ = 0;
  int reasoning_tokens_ = 0;
};

}  // namespace rose
