// GET /v1/models and /v1/models/{name}.
#include "api/context.h"
#include "api/errors.h"
#include "api/routes.h"
#include "base/json.h"

namespace rose {

namespace {

Json describe(const ApiContext& context, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", context.started},
          {"owned_by", "rose"},
          {"root", context.model.root},
          {"parent", nullptr},
          {"max_model_len", context.engine.max_context()},
          {"permission", Json::array()}};
}

}  // namespace

ApiError unknown_model(const ApiContext& context, const std::string& name) {
  std::string message = "the model '" + name + "' does not exist; served here:";
  for (const std::string& served : context.model.names) message += " '" + served + "'";
  return {.status = 404, .message = message, .param = "model", .code = "model_not_found"};
}

void get_models(ApiContext& context, Exchange exchange) {
  Json data = Json::array();
  for (const std::string& name : context.model.names) data.push_back(describe(context, name));
  exchange.respond({.body = dump_json({{"object", "list"}, {"data", std::move(data)}})});
}

void get_model(ApiContext& context, Exchange exchange) {
  const std::string wanted = exchange.request().path.substr(std::string_view("/v1/models/").size());
  for (const std::string& name : context.model.names)
    if (name == wanted) return exchange.respond({.body = dump_json(describe(context, name))});
  exchange.respond(error_response(unknown_model(context, wanted)));
}

}  // namespace rose
