#include "api/http_connection.h"

#include "api/ids.h"
#include "api/json_text.h"
#include "base/check.h"

namespace rose {

namespace http = boost::beast::http;

namespace {

constexpr size_t kMaxAhead = 64 << 10;  // of a pipelining client, while it waits for an answer
constexpr std::chrono::seconds kLinger{2};
constexpr int64_t kMostHeld = 32;               // largest bodies, of all connections together,
constexpr int64_t kAlwaysHeld = 1 << 20;        // or so many bytes
constexpr std::chrono::milliseconds kSlice{1};  // of posted work, before the sockets are looked at
constexpr size_t kLastChunkBytes = 5;           // "0\r\n\r\n"

// Answers that have no body, nor a header that speaks of one.
bool bodiless(int status) { return status == 204 || status == 304; }

// A header's value must not break the header apart.
std::string one_line(std::string_view text) {
  std::string line(text);
  std::erase_if(line, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
  return line;
}

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

Connection::Connection(Loop& loop, tcp::socket socket, const std::shared_ptr<const TlsContext>& tls)
    : loop_(loop), socket_(std::move(socket)), transport_(socket_, tls) {}

void Connection::start() {
  error_code error;
  socket_.non_blocking(true, error);
  socket_.set_option(tcp::no_delay(true), error);  // a token must not wait for the ack of the last
  const tcp::endpoint peer = socket_.remote_endpoint(error);
  if (!error) peer_ = strf("%s:%d", peer.address().to_string().c_str(), peer.port());
  set_deadline(loop_.shared.options.idle_timeout);
  arm_read();
}

// --- reading

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
    parser_->header_limit(uint32_t(options.max_header_bytes));
    parser_->body_limit(uint64_t(options.max_body_bytes));
    parser_->eager(true);
    header_seen_ = false;
    request_bytes_ = 0;
    began_ = HttpClock::now();
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
  if (error && error != http::error::need_more) {
    if (error == http::error::body_limit) {
      refuse(413,
             strf("the request's body is larger than %ld bytes", long(options.max_body_bytes)));
    } else if (error == http::error::header_limit) {
      refuse(431, strf("the request's header is larger than %d bytes", options.max_header_bytes));
    } else {
      refuse(400, "not a valid HTTP request: " + error.message());
    }
    return false;
  }
  // Beast's own limit is one of each piece.
  if (!header_seen_ && request_bytes_ + (parser_->is_header_done() ? 0 : int64_t(in_.size())) >
                           options.max_header_bytes + int64_t(loop_.scratch.size())) {
    refuse(431, strf("the request's header is larger than %d bytes", options.max_header_bytes));
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

// --- answering

bool Connection::open(uint64_t serial) const {
  return serial == serial_ && (state_ == State::serving || state_ == State::streaming);
}

void Connection::append_head(const HttpResponse& response, std::optional<size_t> length) {
  status_ = response.status;
  if (loop_.shared.draining) keep_alive_ = false;
  const size_t before = out_.size();
  out_ += strf("HTTP/1.1 %d ", response.status);
  out_ += status_text(response.status);
  out_ += "\r\n";
  const auto add = [&](std::string_view name, std::string_view value) {
    out_ += name;
    out_ += ": ";
    out_ += one_line(value);
    out_ += "\r\n";
  };
  if (!response.content_type.empty()) add("Content-Type", response.content_type);
  if (length)
    add("Content-Length", std::to_string(*length));
  else if (chunked_ && !bodiless(response.status))
    add("Transfer-Encoding", "chunked");
  add("Connection", keep_alive_ ? "keep-alive" : "close");
  add("X-Request-Id", request_.id);
  for (const auto& [name, value] : extra_headers_) add(name, value);
  for (const auto& [name, value] : response.headers) add(name, value);
  out_ += "\r\n";
  response_bytes_ += int64_t(out_.size() - before);
}

void Connection::respond(uint64_t serial, HttpResponse response) {
  if (!open(serial) || state_ == State::streaming) return;
  const bool has_body = !bodiless(response.status);
  append_head(response, has_body ? std::optional(response.body.size()) : std::nullopt);
  if (!head_only_ && has_body) {
    out_ += response.body;
    response_bytes_ += int64_t(response.body.size());
  }
  answered();
}

void Connection::begin(uint64_t serial, HttpResponse head) {
  if (!open(serial) || state_ == State::streaming) return;
  if (!chunked_) keep_alive_ = false;
  append_head(head, std::nullopt);
  last_write_ = HttpClock::now();
  comments_ = head.content_type.starts_with("text/event-stream");
  state_ = State::streaming;
}

void Connection::append_chunk(std::string_view bytes) {
  if (head_only_ || bytes.empty()) return;
  const size_t before = out_.size();
  if (chunked_) out_ += strf("%zx\r\n", bytes.size());
  out_ += bytes;
  if (chunked_) out_ += "\r\n";
  response_bytes_ += int64_t(out_.size() - before);
  last_write_ = HttpClock::now();
}

void Connection::write(uint64_t serial, std::string_view bytes) {
  if (open(serial) && state_ == State::streaming) append_chunk(bytes);
}

void Connection::end(uint64_t serial) {
  if (!open(serial) || state_ != State::streaming) return;
  if (chunked_ && !head_only_) out_ += "0\r\n\r\n";
  answered();
}

void Connection::set_tenant(uint64_t serial, std::shared_ptr<Tenant> tenant) {
  if (open(serial)) request_.tenant = std::move(tenant);
}

void Connection::add_header(uint64_t serial, std::string name, std::string value) {
  if (open(serial)) extra_headers_.emplace_back(std::move(name), std::move(value));
}

void Connection::set_alarm(uint64_t serial, HttpClock::time_point when,
                           std::function<void()> callback) {
  if (!open(serial)) return;
  alarm_ = when;
  on_alarm_ = std::move(callback);
}

// Keeps the account of what requests take in memory.
void Connection::hold(int64_t bytes) {
  loop_.shared.held_bytes += bytes - std::exchange(held_bytes_, bytes);
}

void Connection::answered() {
  std::string().swap(request_.body);
  hold(0);
  on_close_ = nullptr;
  on_alarm_ = nullptr;
  record(status_);
  const HttpOptions& options = loop_.shared.options;
  state_ = keep_alive_ ? State::reading : State::lingering;
  if (keep_alive_)
    set_deadline(unsent() > 0 ? options.send_timeout : options.idle_timeout);
  else
    set_deadline(options.send_timeout);
}

void Connection::on_close(uint64_t serial, std::function<void()> callback) {
  if (open(serial))
    on_close_ = std::move(callback);
  else
    callback();
}

void Connection::post(std::function<void()> work) {
  loop_.post([self = shared_from_this(), work = std::move(work)] {
    work();
    self->turn_over();
  });
}

void Loop::post(std::function<void()> work) {
  {
    const std::lock_guard lock(inbox_mutex);
    inbox.push_back(std::move(work));
    if (std::exchange(scheduled, true)) return;
  }
  asio::post(context, [this] { work_off(); });
}

void Loop::work_off() {
  {
    const std::lock_guard lock(inbox_mutex);
    for (auto& work : inbox) todo.push_back(std::move(work));
    inbox.clear();
    if (todo.empty()) {
      scheduled = false;
      return;
    }
  }
  const HttpClock::time_point enough = HttpClock::now() + kSlice;
  do {
    const std::function<void()> work = std::move(todo.front());
    todo.pop_front();
    work();
  } while (!todo.empty() && HttpClock::now() < enough);
  asio::post(context, [this] { work_off(); });
}

// What a turn has written leaves in one send; then the next request of a pipelining client has its turn.
void Connection::turn_over() {
  flush();
  if (state_ == State::streaming && int64_t(unsent()) > loop_.shared.options.max_unsent_bytes)
    return close();
  advance();
  arm_read();
}

void Connection::flush() {
  if (writing_armed_ || state_ == State::closed) return;
  const HttpOptions& options = loop_.shared.options;
  while (unsent() > 0) {
    size_t bytes = 0;
    const Io io = transport_.write_some(out_.data() + sent_, unsent(), bytes);
    sent_ += bytes;
    if (io == Io::failed) return close();
    if (io == Io::done) continue;
    set_deadline(options.send_timeout);
    return wait_for(io == Io::want_read ? tcp::socket::wait_read : tcp::socket::wait_write,
                    writing_armed_, &Connection::turn_over);
  }
  if (sent_ > 0) {
    out_.clear();
    sent_ = 0;
    if (state_ == State::reading && !parser_)
      set_deadline(options.idle_timeout);
    else if (state_ != State::reading && state_ != State::lingering)
      set_deadline(std::chrono::hours(24 * 365));
  }
  if (state_ == State::lingering && socket_.is_open()) {
    // Closing at once would reset the connection while the client still sends, and the answer be lost.
    transport_.say_goodbye();
    if (deadline_ > HttpClock::now() + kLinger) set_deadline(kLinger);
  }
}

// --- the end

void Connection::check_deadline(HttpClock::time_point now) {
  if (now >= deadline_) {
    if (state_ == State::reading && parser_ && unsent() == 0) {
      refuse(408, "the request did not arrive in time");
      return turn_over();
    }
    return close();
  }
  if (on_alarm_ && now >= alarm_) {
    std::exchange(on_alarm_, nullptr)();
    return turn_over();
  }
  if (state_ == State::streaming && comments_ &&
      now - last_write_ >= loop_.shared.options.comment_interval) {
    append_chunk(": keep-alive\n\n");
    turn_over();
  }
}

void Connection::close_if_idle() {
  if (state_ == State::reading && !parser_ && in_.empty() && unsent() == 0) close();
}

void Connection::close() {
  if (state_ == State::closed) return;
  const bool at_work = state_ == State::serving || state_ == State::streaming;
  state_ = State::closed;
  error_code error;
  socket_.close(error);
  hold(0);
  in_ = {};
  out_ = {};
  sent_ = 0;
  on_alarm_ = nullptr;
  const std::shared_ptr<Connection> self = shared_from_this();
  loop_.connections.erase(self);
  if (at_work) {
    record(499);
    if (const std::function<void()> callback = std::exchange(on_close_, nullptr)) callback();
  }
  const std::lock_guard lock(loop_.shared.mutex);
  --loop_.shared.connections;
  loop_.shared.ended.notify_all();
}

void Connection::record(int status) {
  if (!loop_.shared.record) return;
  loop_.shared.record(
      {.method = request_.method,
       .path = request_.path,
       .peer = peer_,
       .id = request_.id,
       .status = status,
       .request_bytes = request_bytes_,
       .response_bytes = response_bytes_,
       .seconds = std::chrono::duration<double>(HttpClock::now() - began_).count()});
}

}  // namespace rose
