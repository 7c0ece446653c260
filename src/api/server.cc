#include "api/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "api/context.h"
#include "api/routes.h"
#include "base/check.h"
#include "base/log.h"

namespace rose {

namespace {

void log_access(const HttpRecord& record) {
  log_info(strf("%s - \"%s %s\" %d %.*s, %.1f ms, %ld bytes, id %s", record.peer.c_str(),
                record.method.c_str(), record.path.substr(0, 200).c_str(), record.status,
                int(status_text(record.status).size()), status_text(record.status).data(),
                record.seconds * 1e3, long(record.response_bytes), record.id.c_str()));
}

// Waits for SIGINT or SIGTERM through a descriptor, the only thing that a signal handler may touch.
int signal_descriptor = -1;

void on_signal(int) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(signal_descriptor, &one, sizeof one);
}

bool signal_within(int timeout_ms) {
  pollfd waiting{.fd = signal_descriptor, .events = POLLIN, .revents = 0};
  while (::poll(&waiting, 1, timeout_ms) < 0 && errno == EINTR) {
  }
  if (!(waiting.revents & POLLIN)) return false;
  uint64_t count = 0;
  return ::read(signal_descriptor, &count, sizeof count) == sizeof count;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(const ServeOptions& options,
                                               const std::string& version) {
  if (options.io_threads < 1 || options.io_threads > 256)
    return fail(ErrorKind::invalid, strf("--io-threads: %d is not in 1..256", options.io_threads));
  HttpOptions http = {
      .host = options.host,
      .port = options.port,
      .io_threads = options.io_threads,
      .max_body_bytes = options.max_body_bytes,
      .cors_origin = options.cors_origin,
      .comment_interval = std::chrono::seconds(std::max(1, options.keep_alive_interval_s)),
  };
  auto server = std::unique_ptr<Server>(new Server(
      std::unique_ptr<ServerState>(new ServerState{.options = options, .version = version})));
  ServerState& state = *server->state_;
  server->http_ = TRY(HttpServer::start(
      http, [&state](Exchange exchange) { route(state, std::move(exchange)); },
      [&state](const HttpRecord& record) {
        const Route* found = find_route(record.method, record.path);
        if (ApiContext* context = state.api)
          context->metrics.http(record, found ? found->path : "");
        log_access(record);
      }));
  return server;
}

Startup& Server::startup() { return state_->startup; }

void Server::serve(const ServedModel& model, Engine& engine, const Tokenizer& tokenizer,
                   const ChatFormat& format) {
  ROSE_CHECK(!model.names.empty() && !context_, "server: a model without a name, or a second one");
  context_ = std::unique_ptr<ApiContext>(new ApiContext{
      .state = *state_,
      .model = model,
      .engine = engine,
      .tokenizer = tokenizer,
      .format = format,
      .started = std::time(nullptr),
      .metrics = Metrics(model.names.front(), engine.max_context()),
  });
  state_->startup.ready();
  state_->api = context_.get();
}

Result<std::unique_ptr<Server>> Server::start(const ServeOptions& options, const ServedModel& model,
                                              Engine& engine, const Tokenizer& tokenizer,
                                              const ChatFormat& format) {
  auto server = TRY(listen(options, model.version));
  server->serve(model, engine, tokenizer, format);
  return server;
}

Server::Server(std::unique_ptr<ServerState> state) : state_(std::move(state)) {}

Server::~Server() {
  if (http_) drain(0);
}

int Server::port() const { return http_->port(); }

std::string Server::url() const {
  std::string host = state_->options.host;
  if (host == "0.0.0.0" || host == "::") host = "127.0.0.1";
  if (host.find(':') != host.npos) host = "[" + host + "]";
  return strf("http://%s:%d", host.c_str(), port());
}

void Server::drain(int timeout_s) {
  state_->draining = true;
  http_->drain(std::chrono::seconds(timeout_s));
  http_->close_all();  // whoever is left: its requests are cancelled
  if (context_) context_->activity.wait_until_idle();
  http_->stop();
}

void Server::run_until_signal() {
  signal_descriptor = ::eventfd(0, EFD_CLOEXEC);
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  signal_within(-1);
  const int timeout_s = state_->options.shutdown_timeout_s;
  log_info(strf("shutting down: running requests get %d s to end, a second signal cancels them",
                timeout_s));
  state_->draining = true;
  for (int waited_ms = 0; waited_ms < timeout_s * 1000; waited_ms += 50)
    if (http_->drain(std::chrono::milliseconds(0)) || signal_within(50)) break;
  drain(0);
}

}  // namespace rose
