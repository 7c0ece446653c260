// The HTTP server over an engine: routes, their handlers, and a graceful end.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "api/keys.h"
#include "api/tls.h"
#include "base/result.h"
#include "engine/engine.h"
#include "text/chat_format.h"

namespace rose {

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string admin_host = "127.0.0.1";
  int admin_port = 0;
  std::vector<std::string> served_model_name;
  int io_threads = 2;
  int work_threads = 2;
  int keep_alive_interval_s = 15;
  int shutdown_timeout_s = 30;
  std::string date;
  bool strict_params = false;
  std::string response_store = "memory";
  int64_t response_store_bytes = 256 << 20;
  int64_t response_store_age_s = 30 * 24 * 3600;

  KeyOptions keys;
  TlsOptions tls;
  std::vector<std::string> allowed_origins;
  bool isolate_prefix_cache = false;

  int64_t max_body_bytes = 32 << 20;
  int max_header_bytes = 64 << 10;
  int max_connections = 8192;
  int max_json_depth = 64;
  int max_messages = 4096;
  int max_tools = 512;
  int max_choices = 128;
  std::vector<std::string> metrics_compat;
  int log_stats_interval_s = 10;
  std::string request_log;
  std::string otlp_traces_endpoint;
  int request_timeout_s = 3600;
  int queue_timeout_s = 600;

  template <class Visit>
  void each(Visit&& visit) {
    visit("--host", host, "address to listen at; 0.0.0.0 for all of this computer's");
    visit("--port,$PORT", port, "port to listen at; 0 for any that is free");
    visit("--admin-host", admin_host, "address of the admin listener");
    visit("--admin-port", admin_port,
          "its port: metrics, probes and /admin/, nothing of the model; 0: there is none");
    visit("--served-model-name,--alias", served_model_name,
          "names that requests may use for the model");
    visit("--io-threads", io_threads, "threads that read requests and write answers");
    visit("--work-threads", work_threads, "threads that make prompts of requests");
    visit("--sse-keep-alive-interval,--sse-ping-interval", keep_alive_interval_s,
          "seconds after which a silent stream sends a comment");
    visit("--shutdown-timeout", shutdown_timeout_s, "seconds that running requests get to end");
    visit("--strict-params", strict_params,
          "refuse requests with fields that nobody knows, instead of ignoring these");
    visit("--response-store", response_store,
          "where responses are kept: memory, a file's path, or off");
    visit("--response-store-bytes", response_store_bytes,
          "what they may take together; the oldest go first");
    visit("--response-store-age", response_store_age_s, "seconds that they are kept");
    visit("--date", date, "the date prompts mention, YYYY-MM-DD; 'none' for none, empty for today");

    visit("--api-key,$VLLM_API_KEY", keys.api_key,
          "a key that may call; may be repeated; none: anyone may");
    visit("--api-keys-file,--api-key-file", keys.file,
          "JSON of hashed keys, their scopes and limits; read again at SIGHUP");
    visit("--key-requests-per-minute", keys.limits.requests_per_minute,
          "of each key (or of all callers), unless its entry says otherwise; 0: no limit");
    visit("--key-tokens-per-minute", keys.limits.tokens_per_minute, "of prompts and answers");
    visit("--key-tokens-per-day", keys.limits.tokens_per_day, "of prompts and answers");
    visit("--key-concurrent", keys.limits.concurrent, "requests at work or waiting, of each key");
    visit("--key-max-tokens", keys.limits.max_tokens, "of one answer");
    visit(
        "--isolate-prefix-cache", isolate_prefix_cache,
        "keys do not share cached prefixes, and cannot tell what others asked by the time it took");
    visit("--ssl-certfile,--ssl-cert-file", tls.certfile,
          "certificate (PEM): HTTPS instead of HTTP; read again when it changes");
    visit("--ssl-keyfile,--ssl-key-file", tls.keyfile, "its key; empty: in the same file");
    visit("--ssl-ca-certs", tls.ca_certs, "who may sign the certificates of clients");
    visit("--ssl-cert-reqs", tls.cert_reqs, "of clients: 0 none, 1 is checked if given, 2 needed");
    visit("--allowed-origins,--cors-origins", allowed_origins,
          "a web page's origin that may call, or *; may be repeated; none: no other page may");

    visit("--metrics-compat", metrics_compat,
          "sglang, trtllm, llamacpp: /metrics has the names of these as well; may be repeated");
    visit("--log-stats-interval", log_stats_interval_s,
          "seconds between two lines of what the engine does, while it does something; 0: none");
    visit("--request-log", request_log,
          "file that gets a line of JSON for each finished request, without its content; - is "
          "standard output");
    visit("--otlp-traces-endpoint,$OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,$OTEL_EXPORTER_OTLP_ENDPOINT",
          otlp_traces_endpoint,
          "http(s)://HOST:PORT of an OpenTelemetry collector that gets a span for each request");
    visit("--max-body-bytes,--max-request-bytes", max_body_bytes, "largest request");
    visit("--max-header-bytes", max_header_bytes, "largest header of a request");
    visit("--max-connections", max_connections, "at one time");
    visit("--max-json-depth", max_json_depth, "nesting of a request's JSON");
    visit("--max-messages", max_messages, "of a request");
    visit("--max-tools", max_tools, "of a request");
    visit("--max-choices", max_choices, "n of a request");
    visit("--request-timeout", request_timeout_s,
          "seconds from a request to the end of its answer; 0: no limit");
    visit("--queue-timeout", queue_timeout_s,
          "seconds that a request may wait for its first token; 0: no limit");
  }
};

// The model as clients see it.
struct ServedModel {
  std::vector<std::string> names;  // at least one; the first is the one shown
  std::string root;                // where it was loaded from
  std::string version;             // of rose
};

struct ApiContext;
struct ServerState;
class HttpServer;
class Startup;

class Server {
 public:
  // Listens from now on. Probes are answered at once; whoever wants the model is told, until serve(),
  // that it is being loaded.
  static Result<std::unique_ptr<Server>> listen(const ServeOptions& options,
                                                const std::string& version);
  Startup& startup();
  // Answers. What it is given must outlive the server.
  void serve(const ServedModel& model, Engine& engine, const Tokenizer& tokenizer,
             const ChatFormat& format);

  // Both at once.
  static Result<std::unique_ptr<Server>> start(const ServeOptions& options,
                                               const ServedModel& model, Engine& engine,
                                               const Tokenizer& tokenizer,
                                               const ChatFormat& format);
  ~Server();  // drain, without waiting for what runs

  int port() const;
  std::string url() const;  // "http://127.0.0.1:8000"

  // Refuses new requests, lets running ones end; after `timeout_s` cancels them. When this returns
  // nobody calls the engine any more.
  void drain(int timeout_s);

  int admin_port() const;  // 0: there is no admin listener

  // Returns at SIGINT or SIGTERM, having drained; a second signal cuts the waiting short. SIGHUP reads
  // keys and certificates again; certificates are also looked at every second.
  void run_until_signal();
  // Reads certificates again if their files are others than at the last look. True: there are new ones.
  bool renew_certificates();

 private:
  explicit Server(std::unique_ptr<ServerState> state);
  std::unique_ptr<ServerState> state_;
  Status reload();
  std::string tls_stamp_;  // of the certificates that were read last
  std::unique_ptr<ApiContext> context_;
  std::unique_ptr<HttpServer> http_, admin_;  // admin_ may be null
};

}  // namespace rose
