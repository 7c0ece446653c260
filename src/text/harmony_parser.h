// Tokens to messages, one token at a time. One state machine:
//
//   expect_start --<|start|>--> header --<|message|>--> content --stop token--> expect_start
//
// The policy says what happens off this path:
//   strict    an error, exactly as the reference's
//   lenient   the reference's own leniency: a stop token inside a header ends the message
//   tolerant  nothing is an error and no text is lost; special tokens never become text
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "text/harmony.h"
#include "text/harmony_header_reader.h"

namespace rose::harmony {

enum class Policy { strict, lenient, tolerant };

// What a token revealed. A message is `begin`, any number of `text`, `end`.
struct Part {
  enum class Kind { begin, text, end };
  Kind kind = Kind::text;
  Header header;     // of begin
  std::string text;  // of text: whole characters, never empty
};

class Parser {
 public:
  enum class State { expect_start, header, content };

  // With a role the first token is what follows <|start|>ROLE, as in a completion.
  Parser(const Tokenizer& tokenizer, const Specials& specials, Policy policy,
         std::optional<Role> role);

  // After an error the parser is of no more use; the parts before it stand.
  Status push(int token, std::vector<Part>& parts);
  Status finish(std::vector<Part>& parts);

  State state() const { return state_; }
  // The role, as far as it is known: while a header is read only a given one is.
  std::optional<Role> role() const { return state_ == State::content ? open_.role : next_role_; }
  // The header of the message whose content is being read.
  const Header* open() const { return state_ == State::content ? &open_ : nullptr; }

 private:
  using Parts = std::vector<Part>;

  Status at_start(int token);
  Status in_header(int token, Parts& parts);
  void in_content(int token, Parts& parts);
  Status unfinished_header(Parts& parts);

  void tolerate(int token, Parts& parts);
  void tolerate_in_header(int token, Parts& parts);
  void begin_header(HeaderReader::Start start);
  void salvage(HeaderReader::Found found, Parts& parts);
  void after_stop(int token);

  bool is_stop(int token) const;
  void begin(Header header, Parts& parts);
  void content(std::string_view bytes, Parts& parts);
  void end(Parts& parts);

  const Tokenizer& tokenizer_;
  const Specials specials_;
  const Policy policy_;
  State state_ = State::expect_start;
  std::optional<Role> next_role_;
  Header open_;

  std::string header_;           // strict: the bytes of the header so far
  bool header_unknown_ = false;  // strict: with an id that no token has
  std::string pending_;          // strict: bytes of the content that are no character yet
  bool undecodable_ = false;     // strict: an id that no token has ends the readable content

  HeaderReader reader_;   // tolerant
  Utf8Stream utf8_;       // tolerant
  bool any_ = false;      // tolerant: a message was seen
  bool waiting_ = false;  // tolerant: after <|call|>, what comes before the next <|start|> is noise
  bool done_ = false;     // tolerant: after <|return|> everything is
};

}  // namespace rose::harmony
