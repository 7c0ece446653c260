#include "text/harmony_parser.h"

#include <utility>

#include "base/check.h"
#include "text/harmony_header.h"
#include "text/utf8.h"

namespace rose::harmony {
namespace {

// What the reference can tell of the pending bytes after one more token: all that is valid, and at
// most one bad sequence, whatever may follow it.
std::string take_text(std::string& pending) {
  size_t taken = valid_utf8_prefix(pending);
  std::string text = pending.substr(0, taken);
  if (taken < pending.size()) {
    const Utf8Part part = utf8_part(std::string_view(pending).substr(taken));
    if (part.kind == Utf8Part::Kind::bad) {
      text += kReplacement;
      taken += part.size;
    }
  }
  pending.erase(0, taken);
  return text;
}

void add_text(std::string text, std::vector<Part>& parts) {
  if (text.empty()) return;
  Part& part = parts.emplace_back();
  part.kind = Part::Kind::text;
  part.text = std::move(text);
}

std::string lossy(std::string_view bytes) {
  Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text += stream.finish();
}

}  // namespace

Parser::Parser(const Tokenizer& tokenizer, const Specials& specials, Policy policy,
               std::optional<Role> role)
    : tokenizer_(tokenizer),
      specials_(specials),
      policy_(policy),
      state_(role ? State::header : State::expect_start),
      next_role_(role),
      reader_(role.value_or(Role::assistant)) {}

Status Parser::push(int token, Parts& parts) {
  if (policy_ == Policy::tolerant) {
    tolerate(token, parts);
    return Done{};
  }
  switch (state_) {
    case State::expect_start: return at_start(token);
    case State::header: return in_header(token, parts);
    case State::content: in_content(token, parts); return Done{};
  }
  return Done{};
}

Status Parser::finish(Parts& parts) {
  if (state_ == State::content) {
    end(parts);
  } else if (policy_ == Policy::tolerant) {
    if (state_ == State::header) salvage(reader_.cut(), parts);
    state_ = State::expect_start;
  } else if (state_ == State::header) {
    return fail(ErrorKind::invalid, "Unexpected EOS while waiting for message header to complete");
  }
  return Done{};
}

// --- exactly as the reference ---

Status Parser::at_start(int token) {
  if (token != specials_.start)
    return fail(ErrorKind::invalid, strf("Unexpected token %u while expecting start token %d",
                                         unsigned(token), specials_.start));
  state_ = State::header;
  return Done{};
}

Status Parser::in_header(int token, Parts& parts) {
  if (token == specials_.message) {
    state_ = State::expect_start;
    if (std::exchange(header_unknown_, false))
      return fail(ErrorKind::invalid, "could not decode header");
    begin(TRY(parse_header(std::exchange(header_, {}), next_role_)), parts);
    next_role_.reset();
    return Done{};
  }
  if (policy_ == Policy::lenient && is_stop(token)) return unfinished_header(parts);
  const std::string_view bytes = tokenizer_.bytes(token);
  header_unknown_ |= bytes.empty();
  header_ += bytes;
  return Done{};
}

Status Parser::unfinished_header(Parts& parts) {
  if (header_unknown_) return fail(ErrorKind::invalid, "could not decode header");
  if (next_role_ && !header_.empty()) {
    Unfinished found = TRY(parse_unfinished_header(header_, *next_role_));
    begin(std::move(found.header), parts);
    add_text(std::move(found.content), parts);
    end(parts);
  }
  header_.clear();
  next_role_.reset();
  state_ = State::expect_start;
  return Done{};
}

void Parser::in_content(int token, Parts& parts) {
  if (is_stop(token)) return end(parts);
  const std::string_view bytes = tokenizer_.bytes(token);
  undecodable_ |= bytes.empty();
  if (!undecodable_) content(bytes, parts);
}

// --- tolerant ---

void Parser::tolerate(int token, Parts& parts) {
  if (done_ || (waiting_ && token != specials_.start)) return;
  waiting_ = false;

  if (token == specials_.start) {
    if (state_ == State::content) end(parts);
    if (state_ == State::header) salvage(reader_.cut(), parts);
    begin_header(HeaderReader::Start::token);
  } else if (state_ == State::header) {
    tolerate_in_header(token, parts);
  } else if (state_ == State::content) {
    if (is_stop(token)) {
      end(parts);
      after_stop(token);
    } else if (token == specials_.channel) {  // a message that was never ended
      end(parts);
      begin_header(HeaderReader::Start::implied);
      tolerate_in_header(token, parts);
    } else if (!tokenizer_.is_special(token)) {
      content(tokenizer_.bytes(token), parts);
    }
  } else if (is_stop(token)) {
    after_stop(token);
  } else {  // <|start|> was forgotten
    begin_header(HeaderReader::Start::implied);
    tolerate_in_header(token, parts);
  }
}

void Parser::tolerate_in_header(int token, Parts& parts) {
  if (token == specials_.message) {
    HeaderReader::Found found = reader_.complete();
    begin(std::move(found.header), parts);
    content(found.text, parts);
  } else if (token == specials_.channel) {
    if (HeaderReader::Found found = reader_.channel(); !found.text.empty())
      salvage(std::move(found), parts);
  } else if (token == specials_.constrain) {
    reader_.constrain();
  } else if (is_stop(token)) {
    HeaderReader::Found found = reader_.cut();
    if (token == specials_.call && found.header.recipient && found.text.empty()) {
      begin(std::move(found.header), parts);  // a call without arguments is one all the same
      end(parts);
    } else {
      salvage(std::move(found), parts);
    }
    state_ = State::expect_start;
    after_stop(token);
  } else {  // other special tokens end a word, and are none
    reader_.append(tokenizer_.is_special(token) ? " " : tokenizer_.bytes(token));
  }
}

void Parser::begin_header(HeaderReader::Start start) {
  reader_.restart(start);
  next_role_.reset();
  state_ = State::header;
}

// The text of a message that was never begun is a message all the same.
void Parser::salvage(HeaderReader::Found found, Parts& parts) {
  if (found.text.empty()) return;
  begin(std::move(found.header), parts);
  content(found.text, parts);
  end(parts);
  state_ = State::header;
}

// What a model writes past the end of its turn is for nobody.
void Parser::after_stop(int token) {
  if (token == specials_.call) waiting_ = any_;
  if (token == specials_.return_ || token == specials_.end_of_text) done_ = any_;
}

// --- both ---

bool Parser::is_stop(int token) const {
  return token == specials_.return_ || token == specials_.call || token == specials_.end ||
         (policy_ == Policy::tolerant && token == specials_.end_of_text);
}

void Parser::begin(Header header, Parts& parts) {
  open_ = std::move(header);
  Part& part = parts.emplace_back();
  part.kind = Part::Kind::begin;
  part.header = open_;
  state_ = State::content;
  any_ = true;
}

void Parser::content(std::string_view bytes, Parts& parts) {
  std::string text;
  if (policy_ == Policy::tolerant)
    text = utf8_.push(bytes);
  else
    text = take_text(pending_ += bytes);
  add_text(std::move(text), parts);
}

void Parser::end(Parts& parts) {
  std::string text = policy_ == Policy::tolerant ? utf8_.finish() : "";
  if (std::exchange(undecodable_, false)) text += kReplacement;
  text += lossy(std::exchange(pending_, {}));
  add_text(std::move(text), parts);
  parts.emplace_back().kind = Part::Kind::end;
  state_ = State::expect_start;
}

}  // namespace rose::harmony
