// One TCP connection and the thread that serves it. A connection moves through
//
//   reading ──request complete──> serving ──begin──> streaming
//      ^                             │ respond          │ end
//      └────────── kept alive ───────┴──────────────────┘
//                                    └── not kept: lingering (half closed, discarding) ──> closed
//
// Reading goes on while an answer is being made: that is how a client that left is noticed, and what a
// pipelining client has sent meanwhile waits in `in_`.
#pragma once
#include "api/http_transport.h"
// Beast after Asio's configuration above.
#include <atomic>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>

#include "api/http.h"
#include "base/clock.h"

namespace rose {

// What connections share with their server.
struct HttpShared {
  HttpOptions options;
  HttpHandler handler;
  std::function<void(const HttpRecord&)> record;
  std::atomic<bool> draining = false;
  std::atomic<int64_t> held_bytes = 0;  // of requests that have no answer yet, of all connections
  asio::thread_pool pool;               // for what takes long

  explicit HttpShared(int work_threads) : pool(size_t(std::max(1, work_threads))) {}

  // Connections that exist, and a signal when one ends.
  std::mutex mutex;
  std::condition_variable ended;
  int connections = 0;
  std::shared_ptr<const TlsContext> tls;
};

// One I/O thread and its connections. What other threads post is worked off in slices, between which
// the sockets have their turn: a step of the engine brings news for every stream at once, and a probe
// that arrives then must not wait for all of them.
struct Loop {
  explicit Loop(HttpShared& owner) : shared(owner), context(1), sweep(context) {}
  void post(std::function<void()> work);
  void work_off();

  HttpShared& shared;
  asio::io_context context;
  asio::steady_timer sweep;
  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::string scratch = std::string(64 << 10, '\0');  // what one read may bring
  std::mutex inbox_mutex;
  std::vector<std::function<void()>> inbox;          // posted, and not yet seen by the thread
  bool scheduled = false;                            // work_off() is going to run
  std::deque<std::function<void()>> todo;            // of the thread
  std::multimap<Time, std::function<void()>> timed;  // call_at()
  std::thread thread;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Loop& loop, tcp::socket socket, const std::shared_ptr<const TlsContext>& tls);
  void start();

  // As of Exchange; calls of another serial than the current one are late and do nothing.
  const HttpRequest& request() const { return request_; }
  void set_tenant(uint64_t serial, std::shared_ptr<Tenant> tenant);
  void add_header(uint64_t serial, std::string name, std::string value);
  void set_alarm(uint64_t serial, Time when, std::function<void()> callback);
  bool open(uint64_t serial) const;
  void respond(uint64_t serial, HttpResponse response);
  void begin(uint64_t serial, HttpResponse head);
  void write(uint64_t serial, std::string_view bytes);
  void end(uint64_t serial);
  void on_close(uint64_t serial, std::function<void()> callback);
  void post(std::function<void()> work);
  void call_at(Time when, std::function<void()> work);
  void offload(std::function<void()> work) { asio::post(loop_.shared.pool, std::move(work)); }

  void check_deadline(Time now);
  void close_if_idle();
  void close();  // tells the handler that is at work, if any

 private:
  enum class State { reading, serving, streaming, lingering, closed };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void arm_read();
  void wait_for(tcp::socket::wait_type what, bool& armed, void (Connection::*then)());
  void on_readable();
  void input_ended();
  void advance();
  bool parse_some();
  void header_done();
  void dispatch();
  void refuse(int status, const std::string& message);

  void append_head(const HttpResponse& response, std::optional<size_t> length);
  void append_chunk(std::string_view bytes);
  void answered();
  void turn_over();
  void flush();
  size_t unsent() const { return out_.size() - sent_; }
  void set_deadline(std::chrono::milliseconds after) { deadline_ = Clock::now() + after; }
  void hold(int64_t bytes);
  void record(int status);

  Loop& loop_;
  tcp::socket socket_;
  Transport transport_;
  std::string peer_;
  State state_ = State::reading;

  std::string in_;  // received, not yet parsed
  std::optional<Parser> parser_;
  bool header_seen_ = false;
  bool advancing_ = false;
  bool reading_armed_ = false;
  bool read_wants_write_ = false;  // a TLS handshake

  std::string out_;  // to be sent, from sent_
  size_t sent_ = 0;
  bool writing_armed_ = false;

  uint64_t serial_ = 0;  // of the exchange at work
  HttpRequest request_;
  bool keep_alive_ = true;
  bool chunked_ = true;  // HTTP/1.1; 1.0 streams end with the connection
  bool head_only_ = false;
  bool comments_ = false;  // the stream is of events, among which comments are legal
  int status_ = 0;
  int64_t request_bytes_ = 0, response_bytes_ = 0;
  int64_t held_bytes_ = 0;  // of HttpShared's
  Headers extra_headers_;
  std::function<void()> on_close_, on_alarm_;
  Time alarm_;
  Time began_, last_write_, deadline_;
};

}  // namespace rose
