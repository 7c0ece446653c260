// The probes, /load, /version and /metrics: answered at once, without waiting for the engine.
#include "api/context.h"
#include "api/errors.h"
#include "api/routes.h"
#include "base/json.h"

namespace rose {

// Ready for requests, or not yet, or not any more.
void get_health(ServerState& state, Exchange exchange) {
  if (state.draining)
    return exchange.respond(
        error_response({.status = 503, .message = "the server is shutting down"}));
  if (!state.api)
    return exchange.respond(error_response(
        {.status = 503, .message = state.startup.sentence(), .code = "model_loading"}));
  exchange.respond({.body = R"({"status":"ok"})"});
}

// 200 once the model is loaded, and from then on: what a startup probe waits for.
void get_startup(ServerState& state, Exchange exchange) {
  const Startup::View view = state.startup.view();
  Json phases = Json::object();
  for (const auto& [name, seconds] : view.phases) phases[name] = seconds;
  const Json body = {{"status", view.ready ? "ok" : "loading"},
                     {"phase", view.phase},
                     {"progress", view.share},
                     {"seconds", view.seconds},
                     {"phases", std::move(phases)}};
  HttpResponse response{.status = view.ready ? 200 : 503, .body = dump_json(body)};
  if (!view.ready) response.headers.emplace_back("Retry-After", "1");
  exchange.respond(std::move(response));
}

void get_live(ServerState&, Exchange exchange) { exchange.respond({.body = R"({"status":"ok"})"}); }

void get_version(ServerState& state, Exchange exchange) {
  exchange.respond({.body = dump_json({{"version", state.version}})});
}

void get_metrics(ServerState& state, Exchange exchange) {
  ApiContext* context = state.api;
  const int64_t dropped = state.spans ? state.spans->dropped() : 0;
  exchange.respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                    .body = context ? context->metrics.text(context->engine.stats(), *state.keys,
                                                            state.startup, dropped)
                                    : Metrics::text(state.startup)});
}

// How busy the engine is, for balancers that want less than /metrics.
void get_load(ApiContext& context, Exchange exchange) {
  const EngineStats stats = context.engine.stats();
  exchange.respond({.body = dump_json({{"server_load", stats.running + stats.waiting},
                                       {"running", stats.running},
                                       {"waiting", stats.waiting},
                                       {"waiting_tokens", stats.waiting_tokens},
                                       {"kv_cache_usage", kv_usage(stats)},
                                       {"saturation", saturation(stats)},
                                       {"draining", bool(context.draining)}})});
}

}  // namespace rose
