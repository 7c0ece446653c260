#include "api/routes.h"

#include "api/context.h"
#include "api/errors.h"

namespace rose {

namespace {

// clang-format off
constexpr Route kRoutes[] = {
    {"POST", "/v1/chat/completions", post_chat_completions},
    {"GET",  "/v1/models",           get_models},
    {"GET",  "/v1/models/*",         get_model},
    {"GET",  "/load",                get_load},
    {"GET",  "/health",              nullptr, get_health},
    {"GET",  "/health/ready",        nullptr, get_health},
    {"GET",  "/health/startup",      nullptr, get_startup},
    {"GET",  "/health/live",         nullptr, get_live},
    {"GET",  "/ping",                nullptr, get_live},
    {"POST", "/ping",                nullptr, get_live},
    {"GET",  "/version",             nullptr, get_version},
    {"GET",  "/metrics",             nullptr, get_metrics},
};
// clang-format on

bool matches(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with('*')) return pattern == path;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern);
}

// "GET, HEAD, POST", the methods that a path has; empty: there is no such path.
std::string allowed_methods(std::string_view path) {
  std::string allowed;
  for (const Route& route : kRoutes) {
    if (!matches(route.path, path)) continue;
    if (!allowed.empty()) allowed += ", ";
    allowed += route.method;
    if (std::string_view(route.method) == "GET") allowed += ", HEAD";
  }
  return allowed;
}

}  // namespace

const Route* find_route(std::string_view method, std::string_view path) {
  if (method == "HEAD") method = "GET";
  for (const Route& route : kRoutes)
    if (method == route.method && matches(route.path, path)) return &route;
  return nullptr;
}

void route(ServerState& state, Exchange exchange) {
  const HttpRequest& request = exchange.request();
  if (const Route* found = find_route(request.method, request.path)) {
    if (found->probe) return found->probe(state, std::move(exchange));
    if (ApiContext* context = state.api) return found->handle(*context, std::move(exchange));
    return exchange.respond(error_response(
        {.status = 503, .message = state.startup.sentence(), .code = "model_loading"}));
  }
  const std::string allowed = allowed_methods(request.path);
  if (request.method == "OPTIONS") {  // what a browser asks before it lets a page call
    HttpResponse response{.status = 204, .content_type = ""};
    response.headers = {{"Allow", allowed.empty() ? "GET, POST" : allowed + ", OPTIONS"},
                        {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                        {"Access-Control-Allow-Headers", "*, Authorization"},
                        {"Access-Control-Max-Age", "600"}};
    return exchange.respond(std::move(response));
  }
  if (allowed.empty())
    return exchange.respond(error_response(
        {.status = 404, .message = "there is nothing at " + request.method + " " + request.path}));
  HttpResponse response = error_response(
      {.status = 405, .message = request.path + " takes " + allowed + ", not " + request.method});
  response.headers.emplace_back("Allow", allowed);
  exchange.respond(std::move(response));
}

}  // namespace rose
