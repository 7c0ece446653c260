// GET /admin/keys and POST /admin/reload, at the admin listener.
#include "api/context.h"
#include "api/routes.h"
#include "base/json.h"

namespace rose {

// Who may call, and what each has used; never the keys themselves.
void get_keys(ServerState& state, Exchange exchange) {
  Json keys = Json::array();
  for (const auto& tenant : state.keys->tenants()) {
    const Tenant::Usage usage = tenant->usage();
    keys.push_back({{"name", tenant->name()},
                    {"active", usage.active},
                    {"requests", usage.requests},
                    {"refused", usage.refused},
                    {"prompt_tokens", usage.prompt_tokens},
                    {"generated_tokens", usage.generated_tokens}});
  }
  exchange.respond({.body = dump_json({{"keys", std::move(keys)}})});
}

void post_reload(ServerState& state, Exchange exchange) {
  const Status status = state.reload();
  if (!status)
    return exchange.respond(error_response({.status = 500, .message = status.error().message}));
  exchange.respond({.body = R"({"status":"ok"})"});
}

}  // namespace rose
