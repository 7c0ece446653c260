// One choice of a request: its tokens become deltas for the client, its ending a finish reason. How the
// deltas are cut never changes what they join to.
#pragma once
#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "api/stop_scanner.h"
#include "engine/request.h"
#include "text/chat_format.h"

namespace rose {

// Of the first token of all: there is nothing that it could follow from.
inline constexpr float kNoLogprob = std::numeric_limits<float>::quiet_NaN();

// More of one field of a choice.
struct Delta {
  ChatEvent::Kind kind;
  std::string text;
  int tool_index = 0;                       // of tool_call and tool_arguments
  std::string call_id = {};                 // of tool_call
  std::vector<GeneratedToken> tokens = {};  // content with logprobs: the tokens it was made of
};

// How its tokens are read.
struct ChoiceOptions {
  std::vector<std::string> stop;
  bool include_stop = false;
  int given = 0;       // tokens that it begins with and that nobody generated: they do not count
  int min_tokens = 0;  // stop strings are not possible before
  bool include_reasoning = true;
  bool logprobs = false;
  bool one_call = false;  // the choice ends where a second one would begin
  const char* call_prefix = "call_";
  std::vector<int> stop_tokens;  // the client's own
};

class Choice {
 public:
  // `tokenizer` must outlive this.
  Choice(std::unique_ptr<StreamParser> parser, const Tokenizer& tokenizer, ChoiceOptions options);

  // Appends what became certain to `out`. Does nothing once finished.
  void push(const GeneratedToken& token, std::vector<Delta>& out);
  void finish(Finish finish, std::vector<Delta>& out);

  bool finished() const { return !finish_reason_.empty(); }
  // "stop", "length", "tool_calls"; "abort" or "error" where no answer was possible.
  const std::string& finish_reason() const { return finish_reason_; }
  const std::string& stop_string() const { return stop_string_; }  // that ended it, if one did
  int stop_token() const { return stop_token_; }                   // the client's, or -1
  int tokens() const { return tokens_; }  // that were pushed, before it finished
  int completion_tokens() const { return std::max(tokens_ - options_.given, 0); }
  int reasoning_tokens() const { return parser_->reasoning_tokens(); }

 private:
  // A token of the content and where its text begins in it, in bytes.
  struct ContentToken {
    GeneratedToken token;
    int64_t begin;
  };

  void take_events(std::vector<Delta>& out);
  void take_content(std::string_view text, std::vector<Delta>& out);
  void attribute_tokens();
  void emit_content(std::string text, std::vector<Delta>& out);

  std::unique_ptr<StreamParser> parser_;
  const Tokenizer* tokenizer_;
  ChoiceOptions options_;
  StopScanner scanner_;
  std::vector<ChatEvent> events_;
  int tool_calls_ = 0;
  int tokens_ = 0;
  std::string finish_reason_, stop_string_;
  int stop_token_ = -1;

  // Which tokens are content: see attribute_tokens().
  std::vector<GeneratedToken> recent_;  // since the last event
  std::deque<ContentToken> unsent_;     // content whose text is not out yet
  int64_t content_bytes_ = 0;           // that the parser gave out
  int64_t attributed_bytes_ = 0;        // of content tokens
  int64_t emitted_bytes_ = 0;           // that left here
};

}  // namespace rose
