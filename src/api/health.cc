// GET /health, /health/live, /ping, /version and /metrics: answered at once, without the engine.
#include "api/context.h"
#include "api/errors.h"
#include "api/routes.h"
#include "base/json.h"

namespace rose {

// Ready for requests, or not any more.
void get_health(ApiContext& context, Exchange exchange) {
  if (context.draining)
    return exchange.respond(
        error_response({.status = 503, .message = "the server is shutting down"}));
  exchange.respond({.body = R"({"status":"ok"})"});
}

void get_live(ApiContext&, Exchange exchange) { exchange.respond({.body = R"({"status":"ok"})"}); }

void get_version(ApiContext& context, Exchange exchange) {
  exchange.respond({.body = dump_json({{"version", context.model.version}})});
}

void get_metrics(ApiContext& context, Exchange exchange) {
  exchange.respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                    .body = context.metrics.text(context.engine.stats())});
}

}  // namespace rose
