#include "api/routes.h"

#include "api/access.h"
#include "api/context.h"
#include "api/errors.h"
#include "base/clock.h"

namespace rose {

namespace {

// clang-format off
constexpr Route kRoutes[] = {
    {"POST", "/v1/chat/completions", post_chat_completions},
    {"POST", "/v1/chat/completions/render", post_render},
    {"POST", "/v1/completions",      post_completions},
    {"POST", "/v1/responses",        post_responses},
    {"POST", "/v1/responses/input_tokens", post_input_tokens},
    {"POST", "/v1/responses/*/cancel", cancel_response},
    {"GET",  "/v1/responses/*/input_items", get_input_items},
    {"GET",  "/v1/responses/*",      get_response},
    {"DELETE", "/v1/responses/*",    delete_response},
    {"POST", "/v1/messages",         post_messages},
    {"POST", "/v1/messages/count_tokens", post_count_tokens},
    {"POST", "/tokenize",            post_tokenize},
    {"POST", "/detokenize",          post_detokenize},
    {"GET",  "/tokenizer_info",      get_tokenizer_info},
    {"GET",  "/v1/models",           get_models},
    {"GET",  "/v1/models/*",         get_model},
    {"GET",  "/load",                get_load, kAllScopes},
    {"GET",  "/health_generate",     get_health_generate},
    {"GET",  "/health",              nullptr, kAllScopes, get_health},
    {"GET",  "/health/ready",        nullptr, kAllScopes, get_health},
    {"GET",  "/health/startup",      nullptr, kAllScopes, get_startup},
    {"GET",  "/health/live",         nullptr, kNone, get_live},
    {"GET",  "/ping",                nullptr, kAllScopes, get_live},
    {"POST", "/ping",                nullptr, kAllScopes, get_live},
    {"GET",  "/version",             nullptr, kAllScopes, get_version},
    {"GET",  "/metrics",             nullptr, kMetrics | kAdmin, get_metrics},
    {"GET",  "/openapi.json",        nullptr, kAllScopes, get_openapi},
    {"GET",  "/admin/keys",          nullptr, kAdmin, get_keys},
    {"POST", "/admin/reload",        nullptr, kAdmin, post_reload},
    {"GET",  "/",                    nullptr, kAllScopes, get_web},
    {"GET",  "/dashboard",           nullptr, kAllScopes, get_web},
    {"GET",  "/web/*",               nullptr, kAllScopes, get_web},
};
// clang-format on

bool matches(std::string_view pattern, std::string_view path) {
  const size_t any = pattern.find('*');
  if (any == pattern.npos) return pattern == path;
  return path.size() >= pattern.size() && path.starts_with(pattern.substr(0, any)) &&
         path.ends_with(pattern.substr(any + 1));
}

// What only an administrator may do is nowhere but at the admin listener, and what users do is not there.
bool serves(Side side, const Route& route) {
  if (side == Side::front) return route.scopes != kAdmin;
  return route.scopes != kInfer;
}

// "GET, HEAD, POST", the methods that a path has; empty: there is no such path.
std::string allowed_methods(Side side, std::string_view path) {
  std::string allowed;
  for (const Route& route : kRoutes) {
    if (!matches(route.path, path) || !serves(side, route)) continue;
    if (!allowed.empty()) allowed += ", ";
    allowed += route.method;
    if (std::string_view(route.method) == "GET") allowed += ", HEAD";
  }
  return allowed;
}

// What other servers have and this one never will.
const char* why_nothing(std::string_view path) {
  for (const char* other : {"/v1/embeddings", "/v1/images", "/v1/audio", "/v1/moderations",
                            "/v1/rerank", "/rerank", "/score", "/pooling", "/classify"})
    if (path.starts_with(other)) return "; this server generates text and nothing else";
  return "";
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

const Route* find_route(std::string_view method, std::string_view path) {
  if (method == "HEAD") method = "GET";
  for (const Route& route : kRoutes)
    if (method == route.method && matches(route.path, path)) return &route;
  return nullptr;
}

namespace {

// What a browser asks before it lets a page call; it sends no key with it.
HttpResponse preflight(const std::string& allowed, bool from_allowed_origin) {
  HttpResponse response{.status = 204, .content_type = ""};
  response.headers = {{"Allow", allowed.empty() ? "GET, POST" : allowed + ", OPTIONS"}};
  if (from_allowed_origin) {
    response.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    response.headers.emplace_back("Access-Control-Allow-Headers", "*, Authorization");
    response.headers.emplace_back("Access-Control-Max-Age", "600");
  }
  return response;
}

}  // namespace

void route(ServerState& state, Side side, Exchange exchange) {
  const HttpRequest& request = exchange.request();
  const std::string origin = allowed_origin(state.options.allowed_origins, request);
  if (!origin.empty()) {
    exchange.add_header("Access-Control-Allow-Origin", origin);
    exchange.add_header("Vary", "Origin");
  }
  const std::string allowed = allowed_methods(side, request.path);
  if (request.method == "OPTIONS") return exchange.respond(preflight(allowed, !origin.empty()));

  const Route* found = find_route(request.method, request.path);
  if (found && !serves(side, *found)) found = nullptr;
  Access access = find_access(*state.keys, request, found ? found->scopes : kAllScopes);
  if (access.refusal) return exchange.respond(std::move(*access.refusal));
  exchange.set_tenant(access.tenant);
  if (found && found->probe) return found->probe(state, std::move(exchange));
  if (found) {
    ApiContext* context = state.api;
    if (!context)
      return exchange.respond(error_response(
          {.status = 503, .message = state.startup.sentence(), .code = "model_loading"},
          request.path));
    if (request.method == "POST")
      if (const auto too_much = access.tenant->request(Clock::now())) {
        HttpResponse response = error_response({.status = 429,
                                                .message = too_much->message,
                                                .code = "rate_limit_exceeded",
                                                .retry_after_s = too_much->retry_after_s},
                                               request.path);
        for (auto& header : access.tenant->headers(Clock::now()))
          response.headers.push_back(std::move(header));
        return exchange.respond(std::move(response));
      }
    return found->handle(*context, std::move(exchange));
  }
  if (allowed.empty())
    return exchange.respond(
        error_response({.status = 404,
                        .message = "there is nothing at " + request.method + " " + request.path +
                                   why_nothing(request.path)},
                       request.path));
  HttpResponse response = error_response(
      {.status = 405, .message = request.path + " takes " + allowed + ", not " + request.method},
      request.path);
  response.headers.emplace_back("Allow", allowed);
  exchange.respond(std::move(response));
}

}  // namespace rose
