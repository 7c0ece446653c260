// A connection's life and its writing half: answers, streams, and what waits to be sent (http_reading.cc reads).
#include "api/http_connection.h"

#include "base/check.h"

namespace rose {

namespace {

constexpr std::chrono::seconds kLinger{2};
constexpr std::chrono::milliseconds kSlice{1};  // of posted work, before the sockets are looked at

// Answers that have no body, nor a header that speaks of one.
bool bodiless(int status) { return status == 204 || status == 304; }

// A header's value must not break the header apart.
std::string one_line(std::string_view text) {
  std::string line(text);
  std::erase_if(line, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
  return line;
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
  last_write_ = Clock::now();
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
  last_write_ = Clock::now();
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

void Connection::set_alarm(uint64_t serial, Time when, std::function<void()> callback) {
  if (!open(serial)) return;
  alarm_ = when;
  on_alarm_ = std::move(callback);
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

// Holds the connection no longer than others do: it may be gone long before.
void Connection::call_at(Time when, std::function<void()> work) {
  loop_.timed.emplace(when, [weak = weak_from_this(), work = std::move(work)] {
    work();
    if (const auto self = weak.lock()) self->turn_over();
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
  const Time enough = Clock::now() + kSlice;
  do {
    const std::function<void()> work = std::move(todo.front());
    todo.pop_front();
    work();
  } while (!todo.empty() && Clock::now() < enough);
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
    if (deadline_ > Clock::now() + kLinger) set_deadline(kLinger);
  }
}

// --- the end

void Connection::check_deadline(Time now) {
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
  loop_.shared.record({.method = request_.method,
                       .path = request_.path,
                       .peer = peer_,
                       .id = request_.id,
                       .status = status,
                       .request_bytes = request_bytes_,
                       .response_bytes = response_bytes_,
                       .seconds = seconds_since(began_)});
}

}  // namespace rose
