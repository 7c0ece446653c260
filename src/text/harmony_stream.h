// What the model says, as events for the API: the messages of the tolerant parser, filed by channel
// and recipient.
//
//   recipient functions.NAME, or the bare name of a listed tool    a call, on whatever channel
//   analysis                                                       reasoning
//   final; commentary for no tool (a preamble)                     content
//   anything else                                                  content if the turn has no other,
//                                                                  else reasoning
//
// The last row waits until content appears or the turn ends, and what follows waits behind it, so
// that each kind stays in the model's order. Messages of a kind are joined by a blank line.
#pragma once
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "text/chat_format.h"
#include "text/harmony_parser.h"

namespace rose::harmony {

class EventStream final : public StreamParser {
 public:
  EventStream(const Tokenizer& tokenizer, const Specials& specials, std::span<const Tool> tools);
  void push(int token, std::vector<ChatEvent>& events) override;
  void finish(std::vector<ChatEvent>& events) override;
  int reasoning_tokens() const override { return reasoning_tokens_; }
  bool in_reasoning() const override {
    return !messages_.empty() && !messages_.back().ended &&
           messages_.back().field == Field::reasoning;
  }

 private:
  enum class Field { reasoning, content, call, undecided };
  struct Message {
    Field field;
    std::string tool = {};  // of a call
    std::string text = {};  // not yet sent
    int tokens = 0;         // not yet counted
    int index = -1;         // of a call that was announced
    bool begun = false;     // something was sent
    bool ended = false;     // nothing will be added
  };

  Message filed(const Header& header) const;
  std::string tool_named(std::string_view recipient) const;
  bool listed(std::string_view name) const;
  void take(std::vector<ChatEvent>& events);
  void count_towards(Message& message, int tokens);
  void send(std::vector<ChatEvent>& events);
  void send(Message& message, std::vector<ChatEvent>& events);

  std::vector<std::string> tools_;
  Parser parser_;
  std::vector<Part> parts_;  // of the newest token
  std::deque<Message>
      messages_;              // the last may be open; more than one only behind an undecided one
  bool any_content_ = false;  // in any message, sent or not
  bool finished_ = false;
  bool sent_reasoning_ = false, sent_content_ = false;
  int calls_ = 0;
  int uncounted_ = 0;  // tokens of a header whose message has not begun
  int reasoning_tokens_ = 0;
};

}  // namespace rose::harmony
