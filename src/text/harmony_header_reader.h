// The header of a message, read from whatever a model wrote: no text is an error.
#pragma once
#include <string>
#include <string_view>

#include "text/harmony.h"

namespace rose::harmony {

// Takes a header piece by piece. What it recognises becomes the header; what looks like a message
// that the model forgot to begin is kept as text. Time is linear in the bytes.
//
//   to=NAME            the recipient, wherever it stands; the last one counts
//   <|channel|>NAME    the channel; the last known one counts
//   <|constrain|>TYPE  the content type; so are a bare `json` and `code`
//   functions.NAME     a recipient that lacks its `to=`
//   words in front     a role or the name of a tool, else text
class HeaderReader {
 public:
  enum class Start { implied, token };  // token: <|start|> was seen, so a role comes first
  explicit HeaderReader(Role role) : role_(role) { restart(Start::implied); }
  void restart(Start start);

  void append(std::string_view bytes) { segment_ += bytes; }
  bool blank() const { return blank_ && segment_.empty(); }

  struct Found {
    Header header;
    std::string text;  // bytes; empty: only a header
  };
  // <|channel|> arrived: a message that stood before it and was never begun, if there is text.
  Found channel();
  void constrain();
  // <|message|> arrived: the header, and the text in front that belongs to the message.
  Found complete();
  // The header was cut off by a stop token, a new <|start|> or the end.
  Found cut();

 private:
  enum class Opener { lead, channel, constrain };
  // What ends a segment tells how to read it: before <|message|> and <|constrain|> words are header;
  // before the end, and before another channel, they may as well be a message.
  enum class Reading { header, salvage, salvage_at_end };

  void settle(Reading reading);
  void words(std::string_view segment, Reading reading);
  size_t opening(std::string_view segment, Reading reading);
  size_t lead(std::string_view segment, Reading reading);
  size_t channel_value(std::string_view segment, Reading reading);
  size_t constrain_type(std::string_view segment, Reading reading);
  size_t element(std::string_view word, Reading reading);

  const Role role_;
  Header header_;
  Start start_ = Start::implied;
  Opener opener_ = Opener::lead;
  bool blank_ = true;
  std::string segment_;  // bytes since the last marker
  std::string lead_;     // text before the first marker
  std::string rest_;     // text after a marker; of no meaning once <|message|> arrives
};

}  // namespace rose::harmony
