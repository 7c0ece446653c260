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

Result<std::unique_ptr<Server>> Server::start(const ServeOptions& options, const ServedModel& model,
                                              Engine& engine, const Tokenizer& tokenizer,
                                              const ChatFormat& format) {
  ROSE_CHECK(!model.names.empty(), "server: the model has no name");
  if (options.io_threads < 1 || options.io_threads > 256)
    return fail(ErrorKind::invalid, strf("--io-threads: %d is not in 1..256", options.io_threads));
  auto context = std::unique_ptr<ApiContext>(new ApiContext{
      .options = options,
      .model = model,
      .engine = engine,
      .tokenizer = tokenizer,
      .format = format,
      .started = std::time(nullptr),
      .metrics = Metrics(model.names.front(), engine.max_context()),
  });
  HttpOptions http = {
      .host = options.host,
      .port = options.port,
      .io_threads = options.io_threads,
      .max_body_bytes = options.max_body_bytes,
      .cors_origin = options.cors_origin,
      .comment_interval = std::chrono::seconds(std::max(1, options.keep_alive_interval_s)),
  };
  ApiContext& shared = *context;
  auto server = TRY(HttpServer::start(
      http, [&shared](Exchange exchange) { route(shared, std::move(exchange)); },
      [&shared](const HttpRecord& record) {
        const Route* found = find_route(record.method, record.path);
        shared.metrics.http(record, found ? found->path : "");
        log_access(record);
      }));
  return std::unique_ptr<Server>(new Server(std::move(context), std::move(server)));
}

Server::Server(std::unique_ptr<ApiContext> context, std::unique_ptr<HttpServer> http)
    : context_(std::move(context)), http_(std::move(http)) {}

Server::~Server() { drain(0); }

int Server::port() const { return http_->port(); }

std::string Server::url() const {
  std::string host = context_->options.host;
  if (host == "0.0.0.0" || host == "::") host = "127.0.0.1";
  if (host.find(':') != host.npos) host = "[" + host + "]";
  return strf("http://%s:%d", host.c_str(), port());
}

void Server::drain(int timeout_s) {
  context_->draining = true;
  http_->drain(std::chrono::seconds(timeout_s));
  http_->close_all();  // whoever is left: its requests are cancelled
  context_->activity.wait_until_idle();
  http_->stop();
}

void Server::run_until_signal() {
  signal_descriptor = ::eventfd(0, EFD_CLOEXEC);
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  signal_within(-1);
  const int timeout_s = context_->options.shutdown_timeout_s;
  log_info(strf("shutting down: running requests get %d s to end, a second signal cancels them",
                timeout_s));
  context_->draining = true;
  for (int waited_ms = 0; waited_ms < timeout_s * 1000; waited_ms += 50)
    if (http_->drain(std::chrono::milliseconds(0)) || signal_within(50)) break;
  drain(0);
}

}  // namespace rose
