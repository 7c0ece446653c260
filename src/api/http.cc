#include "api/http.h"

#include <sys/resource.h>

#include <csignal>

#include "api/http_connection.h"
#include "base/check.h"

namespace rose {

std::string_view HttpRequest::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers)
    if (name == lower_case_name) return value;
  return {};
}

std::string_view status_text(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
  }
  return "Unknown";
}

// --- Exchange

Exchange::Exchange(std::shared_ptr<Connection> connection, uint64_t serial)
    : connection_(std::move(connection)), serial_(serial) {}
const HttpRequest& Exchange::request() const { return connection_->request(); }
void Exchange::set_tenant(std::shared_ptr<Tenant> tenant) {
  connection_->set_tenant(serial_, std::move(tenant));
}
void Exchange::add_header(std::string name, std::string value) {
  connection_->add_header(serial_, std::move(name), std::move(value));
}
void Exchange::set_alarm(Time when, std::function<void()> callback) {
  connection_->set_alarm(serial_, when, std::move(callback));
}
void Exchange::respond(HttpResponse response) {
  connection_->respond(serial_, std::move(response));
}
void Exchange::begin(HttpResponse head) { connection_->begin(serial_, std::move(head)); }
void Exchange::write(std::string_view bytes) { connection_->write(serial_, bytes); }
void Exchange::end() { connection_->end(serial_); }
bool Exchange::open() const { return connection_->open(serial_); }
void Exchange::on_close(std::function<void()> callback) {
  connection_->on_close(serial_, std::move(callback));
}
void Exchange::call_at(Time when, std::function<void()> work) {
  connection_->call_at(when, std::move(work));
}
void Exchange::post(std::function<void()> work) const { connection_->post(std::move(work)); }
void Exchange::offload(std::function<void()> work) const { connection_->offload(std::move(work)); }

// --- HttpServer

struct HttpServer::State {
  explicit State(const HttpOptions& options, HttpHandler handler,
                 std::function<void(const HttpRecord&)> record)
      : shared(options.work_threads) {
    shared.options = options;
    shared.tls = options.tls;
    shared.handler = std::move(handler);
    shared.record = std::move(record);
    for (int i = 0; i < std::max(1, options.io_threads); ++i)
      loops.push_back(std::make_unique<Loop>(shared));
    acceptor.emplace(loops[0]->context);
  }

  Status listen();
  void accept();
  void hand_over(tcp::socket socket, Loop& loop);
  void arm_sweep(Loop& loop);
  void each_connection(void (*act)(Connection&));

  HttpShared shared;
  std::vector<std::unique_ptr<Loop>> loops;
  std::optional<tcp::acceptor> acceptor;  // of loops[0]; the others are handed their share
  size_t next_loop = 0;
  bool accept_later = false;  // the last accept failed: try again at the next sweep
  int port = 0;
  bool stopped = false;
};

namespace {

Result<asio::ip::address> address_of(const std::string& host) {
  error_code error;
  if (host == "localhost") return asio::ip::make_address("127.0.0.1");
  if (const auto address = asio::ip::make_address(host, error); !error) return address;
  asio::io_context context;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(host, "", tcp::resolver::passive, error);
  if (error || found.empty())
    return fail(ErrorKind::invalid, strf("host '%s' is no address of this computer: %s",
                                         host.c_str(), error.message().c_str()));
  return found.begin()->endpoint().address();
}

// Every stream is a file descriptor: take as many as the system lets us.
void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Status HttpServer::State::listen() {
  const HttpOptions& options = shared.options;
  if (options.port < 0 || options.port > 65535)
    return fail(ErrorKind::invalid, strf("port %d is not in 0..65535", options.port));
  const tcp::endpoint endpoint(TRY(address_of(options.host)), uint16_t(options.port));
  error_code error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(4096, error);
  if (error == asio::error::address_in_use)
    return fail(ErrorKind::busy,
                strf("port %d of %s is in use by another program; choose another with "
                     "--port",
                     options.port, options.host.c_str()));
  if (error)
    return fail(ErrorKind::io, strf("listening at %s:%d: %s", options.host.c_str(), options.port,
                                    error.message().c_str()));
  port = acceptor->local_endpoint(error).port();
  return Done{};
}

// One thread accepts and deals connections out in turn. (With SO_REUSEPORT a second server could take
// the same port unseen.)
void HttpServer::State::accept() {
  Loop& loop = *loops[next_loop++ % loops.size()];
  acceptor->async_accept(loop.context, [this, &loop](error_code error, tcp::socket socket) {
    if (shared.draining || error == asio::error::operation_aborted) return;
    if (error) {
      accept_later = true;  // out of descriptors, most likely
      return;
    }
    hand_over(std::move(socket), loop);
    accept();
  });
}

// In one send that does not wait; who speaks TLS learns no more than that the connection ended.
void turn_away(tcp::socket& socket, const std::shared_ptr<const TlsContext>& tls) {
  static constexpr std::string_view kFull =
      "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: "
      "close\r\n\r\n";
  error_code error;
  socket.non_blocking(true, error);
  if (!tls) socket.write_some(asio::buffer(kFull), error);
}

void HttpServer::State::hand_over(tcp::socket socket, Loop& loop) {
  std::shared_ptr<const TlsContext> tls;
  {
    const std::lock_guard lock(shared.mutex);
    if (shared.connections >= shared.options.max_connections) return turn_away(socket, shared.tls);
    ++shared.connections;
    tls = shared.tls;
  }
  auto connection = std::make_shared<Connection>(loop, std::move(socket), tls);
  asio::post(loop.context, [&loop, connection] {
    loop.connections.insert(connection);
    if (loop.shared.draining) return connection->close();
    connection->start();
  });
}

// One timer a thread looks at every deadline: cheaper than one each.
void HttpServer::State::arm_sweep(Loop& loop) {
  loop.sweep.expires_after(shared.options.sweep_interval);
  loop.sweep.async_wait([this, &loop](error_code error) {
    if (error) return;
    const Time now = Clock::now();
    const std::vector<std::shared_ptr<Connection>> all(loop.connections.begin(),
                                                       loop.connections.end());
    for (const auto& connection : all) connection->check_deadline(now);
    while (!loop.timed.empty() && loop.timed.begin()->first <= now)
      loop.timed.extract(loop.timed.begin()).mapped()();
    if (&loop == loops[0].get() && std::exchange(accept_later, false) && !shared.draining) accept();
    arm_sweep(loop);
  });
}

void HttpServer::State::each_connection(void (*act)(Connection&)) {
  for (const auto& loop : loops)
    asio::post(loop->context, [&loop = *loop, act] {
      const std::vector<std::shared_ptr<Connection>> all(loop.connections.begin(),
                                                         loop.connections.end());
      for (const auto& connection : all) act(*connection);
    });
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(
    const HttpOptions& options, HttpHandler handler,
    std::function<void(const HttpRecord&)> record) {
  raise_file_limit();
  std::signal(SIGPIPE, SIG_IGN);  // a client that has gone is an error of its write, not our death
  auto state = std::make_unique<State>(options, std::move(handler), std::move(record));
  TRY(state->listen());
  state->accept();
  for (const auto& loop : state->loops) {
    state->arm_sweep(*loop);
    loop->thread = std::thread([&context = loop->context] {
      const auto work = asio::make_work_guard(context);
      context.run();
    });
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::~HttpServer() { stop(); }
int HttpServer::port() const { return state_->port; }

void HttpServer::set_tls(std::shared_ptr<const TlsContext> tls) {
  const std::lock_guard lock(state_->shared.mutex);
  state_->shared.tls = std::move(tls);
}

bool HttpServer::drain(std::chrono::milliseconds timeout) {
  state_->shared.draining = true;
  asio::post(state_->loops[0]->context, [state = state_.get()] {
    error_code error;
    state->acceptor->close(error);
  });
  state_->each_connection([](Connection& connection) { connection.close_if_idle(); });
  std::unique_lock lock(state_->shared.mutex);
  return state_->shared.ended.wait_for(lock, timeout,
                                       [&] { return state_->shared.connections == 0; });
}

void HttpServer::close_all() {
  drain(std::chrono::milliseconds(0));
  state_->each_connection([](Connection& connection) { connection.close(); });
  std::unique_lock lock(state_->shared.mutex);
  state_->shared.ended.wait(lock, [&] { return state_->shared.connections == 0; });
}

void HttpServer::stop() {
  if (std::exchange(state_->stopped, true)) return;
  close_all();
  state_->shared.pool.join();
  for (const auto& loop : state_->loops) {
    loop->context.stop();
    loop->thread.join();
  }
}

}  // namespace rose
