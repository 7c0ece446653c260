// rose serve: a model behind the OpenAI HTTP API.
#include <csignal>
#include <cstdio>

#include "api/server.h"
#include "api/startup.h"
#include "base/check.h"
#include "cli/command.h"
#include "cli/session.h"
#include "cli/version.h"

namespace rose {

namespace {

// What others must be told and this program does anyway: commands written for them work as they are.
struct NeedlessOptions {
  std::string word;
  bool flag = false;

  template <class Visit>
  void each(Visit&& visit) {
    visit("--tool-call-parser,--reasoning-parser,--reasoning-format,--uvicorn-log-level", word,
          "no effect");
    visit(
        "--enable-auto-tool-choice,--jinja,--trust-remote-code,--enable-prompt-tokens-details,"
        "--enable-force-include-usage,--enable-request-id-headers,--enable-cache-report,"
        "--enable-ssl-refresh,--enable-chunked-prefill,--async-scheduling",
        flag, "no effect: it is always so");
  }
};

struct Options {
  ModelOptions model;
  ServeOptions server;
  NeedlessOptions needless;

  template <class Visit>
  void each(Visit&& visit) {
    model.each(visit);
    server.each(visit);
    needless.each(visit);
  }
};

// What a newcomer copies next.
void print_greeting(const Server& server, const Session& session) {
  std::printf(
      "rose %s serves %s at %s\n\n"
      "  curl -s %s/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"What is 47 + 38?\"}],"
      "\"temperature\":0}'\n\n"
      "Application startup complete.\n",
      kVersion, session.name.c_str(), server.url().c_str(), server.url().c_str());
  std::fflush(stdout);
}

}  // namespace

Status serve_command(Arguments arguments) {
  Options options;
  const CommandHelp help = {"serve", "Serve a model over the OpenAI HTTP API.",
                            "  rose serve\n"
                            "  rose serve openai/gpt-oss-20b --port 8080 --max-model-len 32k\n"
                            "  rose serve /models/gpt-oss-120b --host 0.0.0.0 --served-model-name "
                            "gpt-oss\n"
                            "  rose serve --device mock --mock-speed 100\n"};
  if (TRY(parse_options(help, options, arguments)) == Parsed::help) return Done{};

  // Listening comes first: a port that is taken is found out before the weights are read, and probes are
  // answered meanwhile. The session outlives the server.
  std::signal(SIGHUP, SIG_IGN);  // until there is something to read again
  std::unique_ptr<Session> session;
  const std::unique_ptr<Server> server = TRY(Server::listen(options.server, kVersion));
  session = TRY(open_session(options.model, [&](const LoadProgress& progress) {
    server->startup().progress(
        progress.phase, progress.total > 0 ? double(progress.bytes) / double(progress.total) : 0);
  }));
  ServedModel served = {.names = options.server.served_model_name,
                        .root = session->runtime->loaded.folder,
                        .version = kVersion};
  if (served.names.empty()) served.names.push_back(session->name);
  server->serve(served, *session->engine, *session->tokenizer, *session->format);
  print_greeting(*server, *session);
  server->run_until_signal();
  return Done{};
}

}  // namespace rose
