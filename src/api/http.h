// HTTP/1.1 behind our own interface: Boost.Beast parses, Asio waits; neither is seen outside http*.cc.
//
// Each connection belongs to one I/O thread, and all of its calls happen there. A handler gets an
// Exchange (one request and its answer) and may keep it: work for other threads goes out with
// offload() or to the engine and comes back with post(). An answer is whole
// (respond) or a stream (begin, write…, end). What is written in one turn leaves in one send; a reader
// that lags by more than `max_unsent_bytes` is dropped, so that a slow client costs bounded memory.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace rose {

class Tenant;
class TlsContext;

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;   // percent-decoded, without the query
  std::string query;  // as sent
  Headers headers;    // names in lower case
  std::string body;
  std::string peer;  // "127.0.0.1:34650"
  std::string id;    // the client's X-Request-Id if it is a decent one, else drawn
  std::shared_ptr<Tenant> tenant = {};  // who asks, once that is known

  std::string_view header(std::string_view lower_case_name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  Headers headers = {};  // besides those of every answer
};

// What one exchange came to, for the log and the counters.
struct HttpRecord {
  std::string method, path, peer, id;
  int status = 0;  // 499: the client left before the end of the answer
  int64_t request_bytes = 0, response_bytes = 0;
  double seconds = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: any that is free
  int io_threads = 2;
  int work_threads = 2;
  int64_t max_body_bytes = 32 << 20;
  int max_header_bytes = 64 << 10;
  int max_connections = 8192;                        // more are told to come back later
  int64_t max_unsent_bytes = 1 << 20;                // of a stream
  std::shared_ptr<const TlsContext> tls = {};        // null: plain HTTP
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte to the end of the header
  std::chrono::milliseconds body_timeout{30'000};    // between two pieces of a body
  std::chrono::milliseconds arrival_timeout{300'000};  // from the first byte to the end of the body
  std::chrono::milliseconds idle_timeout{75'000};      // between two requests
  std::chrono::milliseconds send_timeout{60'000};      // in which nothing could be sent
  std::chrono::milliseconds comment_interval{
      15'000};  // a stream of events with no news says that it lives
  std::chrono::milliseconds sweep_interval{250};  // how often these are looked at
};

class Connection;

// A handle to one request and its answer; copies are the same exchange. After the answer has ended or the
// client has left, writing does nothing. On the connection's thread only, but for post().
class Exchange {
 public:
  Exchange(std::shared_ptr<Connection> connection, uint64_t serial);

  const HttpRequest& request() const;
  void set_tenant(std::shared_ptr<Tenant> tenant);
  // Of the answer, whatever it will be; not after it has begun.
  void add_header(std::string name, std::string value);
  void respond(HttpResponse response);

  void begin(HttpResponse head);  // its body is ignored
  void write(std::string_view bytes);
  void end();

  bool open() const;  // an answer is still wanted
  // Runs when the client leaves, or is dropped, before the end of the answer.
  void on_close(std::function<void()> callback);
  // Runs at that time, unless the answer has ended; a new alarm replaces the one before.
  void set_alarm(Time when, std::function<void()> callback);
  // Runs at about that time, whatever has become of the exchange by then. It is kept until then.
  void call_at(Time when, std::function<void()> work);

  // From any thread: runs `work` on the connection's thread, also if the client has left.
  void post(std::function<void()> work) const;
  // From any thread: runs `work` on one of the threads that may compute for long.
  void offload(std::function<void()> work) const;

 private:
  std::shared_ptr<Connection> connection_;
  uint64_t serial_;
};

// Runs for each request on its connection's thread: must not block.
using HttpHandler = std::function<void(Exchange)>;

class HttpServer {
 public:
  // Binds, listens and starts the threads; requests come as soon as this returns. `record` is called on
  // I/O threads.
  static Result<std::unique_ptr<HttpServer>> start(const HttpOptions& options, HttpHandler handler,
                                                   std::function<void(const HttpRecord&)> record);
  ~HttpServer();  // stop()

  int port() const;
  // Of connections from now on.
  void set_tls(std::shared_ptr<const TlsContext> tls);

  // Accepts no more, closes what is idle, lets exchanges end with "Connection: close". True when all
  // have ended, false at the timeout.
  bool drain(std::chrono::milliseconds timeout);
  // Closes every connection (each on_close runs) and waits until they are gone.
  void close_all();
  // close_all, then joins the threads. Nobody may use an Exchange after it.
  void stop();

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// "Not Found" of 404.
std::string_view status_text(int status);

}  // namespace rose
