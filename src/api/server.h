// The HTTP server over an engine: routes, their handlers, and a graceful end.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "text/chat_format.h"

namespace rose {

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 8000;
  std::vector<std::string> served_model_name;
  int io_threads = 2;
  int64_t max_body_bytes = 32 << 20;
  std::string cors_origin = "*";
  int keep_alive_interval_s = 15;
  int shutdown_timeout_s = 30;
  std::string date;

  template <class Visit>
  void each(Visit&& visit) {
    visit("--host", host, "address to listen at; 0.0.0.0 for all of this computer's");
    visit("--port", port, "port to listen at; 0 for any that is free");
    visit("--served-model-name,--alias", served_model_name,
          "names that requests may use for the model");
    visit("--io-threads", io_threads, "threads that read requests and write answers");
    visit("--max-body-bytes", max_body_bytes, "largest request");
    visit("--allowed-origins,--cors-origins", cors_origin,
          "web pages that may call, or empty for none");
    visit("--sse-keep-alive-interval,--sse-ping-interval", keep_alive_interval_s,
          "seconds after which a silent stream sends a comment");
    visit("--shutdown-timeout", shutdown_timeout_s, "seconds that running requests get to end");
    visit("--date", date, "the date prompts mention, YYYY-MM-DD; 'none' for none, empty for today");
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

  // Returns at SIGINT or SIGTERM, having drained; a second signal cuts the waiting short.
  void run_until_signal();

 private:
  explicit Server(std::unique_ptr<ServerState> state);
  std::unique_ptr<ServerState> state_;
  std::unique_ptr<ApiContext> context_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace rose
