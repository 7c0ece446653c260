#include "api/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "api/context.h"
#include "api/routes.h"
#include "api/stats_line.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace rose {

namespace {

void log_access(const HttpRecord& record) {
  log_info(strf("%s - \"%s %s\" %d %.*s, %.1f ms, %ld bytes, id %s", record.peer.c_str(),
                record.method.c_str(), record.path.substr(0, 200).c_str(), record.status,
                int(status_text(record.status).size()), status_text(record.status).data(),
                record.seconds * 1e3, long(record.response_bytes), record.id.c_str()));
}

// Signals come through a descriptor, the only thing that a signal handler may touch; its count adds up
// what has come.
int signal_descriptor = -1;
constexpr int kLook_ms = 1000;  // at the files of certificates, and at the clock
constexpr uint64_t kEnd = 1, kReload = uint64_t(1) << 32;

void on_signal(int signal) {
  const uint64_t what = signal == SIGHUP ? kReload : kEnd;
  [[maybe_unused]] const ssize_t written = ::write(signal_descriptor, &what, sizeof what);
}

// What has come within that time, or 0.
uint64_t signals_within(int timeout_ms) {
  pollfd waiting{.fd = signal_descriptor, .events = POLLIN, .revents = 0};
  while (::poll(&waiting, 1, timeout_ms) < 0 && errno == EINTR) {
  }
  if (!(waiting.revents & POLLIN)) return 0;
  uint64_t count = 0;
  return ::read(signal_descriptor, &count, sizeof count) == sizeof count ? count : 0;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void warn_if_open(const ServeOptions& options, bool keys_required) {
  if (keys_required || is_loopback(options.host)) return;
  log_warning("********************************************************************************");
  log_warning(
      strf("* %s is not this computer alone, and no key is required: whoever reaches port "
           "%d",
           options.host.c_str(), options.port));
  log_warning("* may use the model. Give --api-key or --api-keys-file, or leave --host as it is.");
  log_warning("********************************************************************************");
}

Status check_options(const ServeOptions& options) {
  struct AtLeast {
    const char* name;
    int64_t value, least;
  };
  const AtLeast rules[] = {
      {"--work-threads", options.work_threads, 1},
      {"--max-body-bytes", options.max_body_bytes, 1},
      {"--max-header-bytes", options.max_header_bytes, 1024},
      {"--max-connections", options.max_connections, 1},
      {"--max-json-depth", options.max_json_depth, 4},
      {"--max-messages", options.max_messages, 1},
      {"--max-tools", options.max_tools, 0},
      {"--max-choices", options.max_choices, 1},
      {"--request-timeout", options.request_timeout_s, 0},
      {"--queue-timeout", options.queue_timeout_s, 0},
      {"--log-stats-interval", options.log_stats_interval_s, 0},
      {"--key-requests-per-minute", options.keys.limits.requests_per_minute, 0},
      {"--key-tokens-per-minute", options.keys.limits.tokens_per_minute, 0},
      {"--key-tokens-per-day", options.keys.limits.tokens_per_day, 0},
      {"--key-concurrent", options.keys.limits.concurrent, 0},
      {"--key-max-tokens", options.keys.limits.max_tokens, 0},
  };
  if (options.io_threads < 1 || options.io_threads > 256)
    return fail(ErrorKind::invalid, strf("--io-threads: %d is not in 1..256", options.io_threads));
  for (const AtLeast& rule : rules)
    if (rule.value < rule.least)
      return fail(ErrorKind::usage, strf("%s: %lld, wanted %lld or more", rule.name,
                                         (long long)rule.value, (long long)rule.least));
  TRY(metrics_compat(options.metrics_compat));
  if (options.tls.certfile.empty() && (!options.tls.keyfile.empty() || options.tls.cert_reqs > 0))
    return fail(ErrorKind::usage, "--ssl-keyfile and --ssl-cert-reqs need --ssl-certfile");
  return Done{};
}

Result<std::unique_ptr<RequestLog>> open_log(const ServeOptions& options) {
  if (options.request_log.empty()) return nullptr;
  return RequestLog::open(options.request_log);
}

Result<std::unique_ptr<SpanExporter>> start_spans(const ServeOptions& options,
                                                  const std::string& version) {
  if (options.otlp_traces_endpoint.empty()) return nullptr;
  return SpanExporter::start(options.otlp_traces_endpoint, version);
}

Result<std::shared_ptr<const TlsContext>> load_tls(const TlsOptions& options) {
  if (options.certfile.empty()) return std::shared_ptr<const TlsContext>();
  return TlsContext::load(options);
}

Result<std::unique_ptr<ResponseStore>> open_responses(const ServeOptions& options) {
  if (options.response_store == "off") return nullptr;
  const bool memory = options.response_store == "memory";
  return ResponseStore::open({.path = memory ? ":memory:" : options.response_store,
                              .max_bytes = options.response_store_bytes,
                              .max_age_s = options.response_store_age_s});
}

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(const ServeOptions& options,
                                               const std::string& version) {
  TRY(check_options(options));
  HttpOptions http = {
      .host = options.host,
      .port = options.port,
      .io_threads = options.io_threads,
      .work_threads = options.work_threads,
      .max_body_bytes = options.max_body_bytes,
      .max_header_bytes = options.max_header_bytes,
      .max_connections = options.max_connections,
      .tls = TRY(load_tls(options.tls)),
      .comment_interval = std::chrono::seconds(std::max(1, options.keep_alive_interval_s)),
  };
  auto keys = TRY(Keys::open(options.keys));
  auto log = TRY(open_log(options));
  auto spans = TRY(start_spans(options, version));
  auto responses = TRY(open_responses(options));
  auto server = std::unique_ptr<Server>(
      new Server(std::unique_ptr<ServerState>(new ServerState{.options = options,
                                                              .version = version,
                                                              .keys = std::move(keys),
                                                              .log = std::move(log),
                                                              .spans = std::move(spans),
                                                              .responses = std::move(responses)})));
  ServerState& state = *server->state_;
  server->tls_stamp_ = tls_stamp(options.tls);
  warn_if_open(options, state.keys->required());
  state.reload = [self = server.get()] { return self->reload(); };
  const auto record = [&state](const HttpRecord& record) {
    const Route* found = find_route(record.method, record.path);
    if (ApiContext* context = state.api) context->metrics.http(record, found ? found->path : "");
    const bool probe = found && found->scopes != kInfer && record.status < 400;
    if (!probe) log_access(record);  // they come several times a second
  };
  server->http_ = TRY(HttpServer::start(
      http, [&state](Exchange exchange) { route(state, Side::front, std::move(exchange)); },
      record));
  if (options.admin_port == 0) return server;
  http.host = options.admin_host;
  http.port = options.admin_port;
  http.io_threads = http.work_threads = 1;
  server->admin_ = TRY(within(
      HttpServer::start(
          http, [&state](Exchange exchange) { route(state, Side::admin, std::move(exchange)); },
          record),
      "the admin listener"));
  return server;
}

// What cannot be read leaves the old in place. The request log is opened anew, as it may have been
// moved away.
Status Server::reload() {
  const std::string stamp = tls_stamp(state_->options.tls);
  const auto tls = TRY(load_tls(state_->options.tls));
  TRY(state_->keys->reload());
  if (state_->log) TRY(state_->log->reopen());
  http_->set_tls(tls);
  if (admin_) admin_->set_tls(tls);
  tls_stamp_ = stamp;
  return Done{};
}

// A certificate and a key that are replaced one after the other do not fit for a moment: what cannot be
// read is looked at again once it has changed further.
bool Server::renew_certificates() {
  const std::string stamp = tls_stamp(state_->options.tls);
  if (stamp == tls_stamp_) return false;
  tls_stamp_ = stamp;
  const auto tls = load_tls(state_->options.tls);
  if (!tls) {
    log_warning("the old certificates stay: " + tls.error().message);
    return false;
  }
  http_->set_tls(*tls);
  if (admin_) admin_->set_tls(*tls);
  log_info("read the new certificates");
  return true;
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
      .metrics = Metrics(model.names.front(), engine.max_context(),
                         *metrics_compat(state_->options.metrics_compat)),
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
  const char* scheme = state_->options.tls.certfile.empty() ? "http" : "https";
  return strf("%s://%s:%d", scheme, host.c_str(), port());
}

int Server::admin_port() const { return admin_ ? admin_->port() : 0; }

void Server::drain(int timeout_s) {
  state_->draining = true;
  http_->drain(std::chrono::seconds(timeout_s));
  http_->close_all();  // whoever is left: its requests are cancelled
  if (context_) {
    context_->background.stop_all({.status = 503, .message = "the server is shutting down"});
    context_->activity.wait_until_idle();
  }
  http_->stop();
  if (admin_) admin_->stop();
}

void Server::run_until_signal() {
  signal_descriptor = ::eventfd(0, EFD_CLOEXEC);
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGHUP, &action, nullptr);
  StatsLine line;
  const auto interval = std::chrono::seconds(state_->options.log_stats_interval_s);
  Time next_line = Clock::now();
  while (true) {
    const uint64_t came = signals_within(kLook_ms);
    renew_certificates();
    if (const Time now = Clock::now(); context_ && interval.count() > 0 && now >= next_line) {
      if (const std::string said = line.next(context_->engine.stats(), now); !said.empty())
        log_info(said);
      next_line = now + interval;
    }
    if (came >= kReload) {
      const Status status = reload();
      if (status)
        log_info("read keys and certificates again");
      else
        log_warning("the old keys and certificates stay: " + status.error().message);
    }
    if (came % kReload > 0) break;
  }
  const int timeout_s = state_->options.shutdown_timeout_s;
  log_info(strf("shutting down: running requests get %d s to end, a second signal cancels them",
                timeout_s));
  state_->draining = true;
  for (int waited_ms = 0; waited_ms < timeout_s * 1000; waited_ms += 50)
    if (http_->drain(std::chrono::milliseconds(0)) || signals_within(50) % kReload > 0) break;
  drain(0);
}

}  // namespace rose
