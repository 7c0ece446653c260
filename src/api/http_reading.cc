// The reading half of a connection: bytes become requests, or are refused.
#include "api/http_connection.h"

#include <algorithm>

#include "api/ids.h"
#include "api/json_text.h"
#include "base/check.h"

namespace rose {

namespace http = boost::beast::http;

namespace {

constexpr size_t kMaxAhead = 64 << 10;    // of a pipelining client, while it waits for an answer
constexpr int64_t kMostHeld = 32;         // largest bodies, of all connections together,
constexpr int64_t kAlwaysHeld = 1 << 20;  // or so many bytes
constexpr size_t kLastChunkBytes = 5;     // "0\r\n\r\n"

bool decent_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// False: a '%' without two hexadecimal digits.
bool percent_decode(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return false;
    out += char(high * 16 + low);
    i += 2;
  }
  return true;
}

}  // namespace

void Connection::arm_read() {
  const bool full =
      (state_ == State::serving || state_ == State::streaming) && in_.size() >= kMaxAhead;
  if (reading_armed_ || state_ == State::closed || full) return;
  if (transport_.pending())
    return asio::post(loop_.context, [self = shared_from_this()] { self->on_readable(); });
  wait_for(read_wants_write_ ? tcp::socket::wait_write : tcp::socket::wait_read, reading_armed_,
           &Connection::on_readable);
}

void Connection::wait_for(tcp::socket::wait_type what, bool& armed, void (Connection::*then)()) {
  armed = true;
  socket_.async_wait(what, [self = shared_from_this(), &armed, then](error_code error) {
    armed = false;
    if (!error) (*self.*then)();
  });
}

// One read a turn, so that a fast sender does not keep the thread from others.
void Connection::on_readable() {
  if (state_ == State::closed || reading_armed_) return;
  size_t bytes = 0;
  const Io io = transport_.read_some(loop_.scratch.data(), loop_.scratch.size(), bytes);
  read_wants_write_ = io == Io::want_write;
  if (io == Io::failed) return input_ended();
  if (io != Io::done) return arm_read();
  if (state_ != State::lingering) in_.append(loop_.scratch, 0, bytes);
  advance();
  turn_over();
  arm_read();
}

// End of input, or an error: nobody waits for what is being made (a half-closed client counts as gone,
// as it does for every server behind which a proxy may stand).
void Connection::input_ended() { close(); }

// Parses and serves what has come, one request after the other; an answer made within dispatch() brings
// us back to the loop, not into a deeper call.
void Connection::advance() {
  if (advancing_) return;
  advancing_ = true;
  while (state_ == State::reading && unsent() == 0 && !in_.empty() && parse_some()) flush();
  advancing_ = false;
}

// True: go on, a request was served. False: more input is needed, or the connection is past reading.
bool Connection::parse_some() {
  const HttpOptions& options = loop_.shared.options;
  // Beast's parser stops the program when it meets the end of a chunked body in pieces of fewer bytes than
  // its last chunk has; that many are to come wherever in the body we are.
  if (parser_ && parser_->is_header_done() && parser_->chunked() && in_.size() < kLastChunkBytes)
    return false;
  if (!parser_) {
    parser_.emplace();
    parser_->header_limit(UINT32_MAX);  // it is one of each piece; ours follows
    parser_->body_limit(uint64_t(options.max_body_bytes));
    parser_->eager(false);  // the header alone, so that its size is known
    header_seen_ = false;
    request_bytes_ = 0;
    began_ = Clock::now();
    set_deadline(options.header_timeout);
  }
  error_code error;
  const size_t parsed = parser_->put(asio::buffer(in_), error);
  in_.erase(0, parsed);
  request_bytes_ += int64_t(parsed);
  hold(request_bytes_ + int64_t(in_.size()));
  if (loop_.shared.held_bytes > std::max(kAlwaysHeld, kMostHeld * options.max_body_bytes)) {
    refuse(503, "the server holds as many large requests as it can");
    return false;
  }
  // All that came belongs to the header until it is complete.
  if (!header_seen_ && request_bytes_ + (parser_->is_header_done() ? 0 : int64_t(in_.size())) >
                           options.max_header_bytes) {
    refuse(431, strf("the request's header is larger than %d bytes", options.max_header_bytes));
    return false;
  }
  if (error && error != http::error::need_more) {
    if (error == http::error::body_limit) {
      refuse(413,
             strf("the request's body is larger than %ld bytes", long(options.max_body_bytes)));
    } else {
      refuse(400, "not a valid HTTP request: " + error.message());
    }
    return false;
  }
  if (parser_->is_header_done()) {
    if (!header_seen_) header_done();
    if (state_ != State::reading) return false;
    set_deadline(options.body_timeout);
    deadline_ = std::min(deadline_, began_ + options.arrival_timeout);
  }
  if (!parser_->is_done()) return parsed > 0 && !in_.empty() && !error;
  dispatch();
  return true;
}

void Connection::header_done() {
  header_seen_ = true;
  parser_->eager(true);
  const auto& message = parser_->get();
  if (message.version() != 11 && message.version() != 10)
    return refuse(505, strf("HTTP version %u.%u is not supported", message.version() / 10,
                            message.version() % 10));
  if (message.version() == 11 && message.count(http::field::host) == 0)
    return refuse(400, "an HTTP/1.1 request needs a Host header");
  const auto expect = message[http::field::expect];
  if (expect.empty()) return;
  if (!boost::beast::iequals(expect, "100-continue"))
    return refuse(417, "Expect: only 100-continue is known");
  if (message.version() == 11 && !parser_->is_done()) out_ += "HTTP/1.1 100 Continue\r\n\r\n";
  flush();
}

void Connection::dispatch() {
  auto message = parser_->release();
  parser_.reset();
  ++serial_;
  state_ = State::serving;
  status_ = 0;
  response_bytes_ = 0;
  request_ = {};
  extra_headers_.clear();
  request_.peer = peer_;
  request_.method = std::string(message.method_string());
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    request_.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  request_.body = std::move(message.body());
  const std::string_view id = request_.header("x-request-id");
  request_.id = decent_id(id) ? std::string(id) : new_id("", 32);
  head_only_ = request_.method == "HEAD";
  chunked_ = message.version() == 11;
  keep_alive_ = message.keep_alive() && !loop_.shared.draining;

  std::string_view target(message.target().data(), message.target().size());
  for (std::string_view scheme : {"http://", "https://"})  // the absolute form, as proxies send it
    if (target.starts_with(scheme))
      target.remove_prefix(std::min(target.size(), target.find('/', scheme.size())));
  const size_t question = target.find('?');
  if (question != target.npos) request_.query = target.substr(question + 1);
  if (!percent_decode(target.substr(0, question), request_.path))
    return refuse(400, "the path has a '%' that two hexadecimal digits do not follow");
  set_deadline(std::chrono::hours(24 * 365));  // while we are at work nobody is late
  loop_.shared.handler(Exchange(shared_from_this(), serial_));
}

// An answer to what is no request; the rest of its bytes cannot be understood.
void Connection::refuse(int status, const std::string& message) {
  if (state_ == State::reading) {
    ++serial_;
    state_ = State::serving;
    request_ = {};
    extra_headers_.clear();
    request_.peer = peer_;
    request_.id = new_id("", 32);
    if (parser_ && parser_->is_header_done()) {
      request_.method = std::string(parser_->get().method_string());
      request_.path = std::string(parser_->get().target());
    }
    response_bytes_ = 0;
    head_only_ = false;
  }
  keep_alive_ = false;
  parser_.reset();
  std::string body = R"({"error":{"message":)";
  append_json_string(body, message);
  body += R"(,"type":"invalid_request_error","param":null,"code":null}})";
  respond(serial_, {.status = status, .body = std::move(body)});
}

// Keeps the account of what requests take in memory.
void Connection::hold(int64_t bytes) {
  loop_.shared.held_bytes += bytes - std::exchange(held_bytes_, bytes);
}

}  // namespace rose
