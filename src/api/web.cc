// GET /, /dashboard, /web/*: the chat page, the dashboard, and the files they are made of. They talk to
// this server alone, and a browser holds them to that: no script but ours runs, whatever a model writes.
#include "api/web.h"

#include "api/errors.h"
#include "api/routes.h"
#include "base/check.h"

namespace rose {

namespace {

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

constexpr std::string_view kFolder = "/web/";

const WebFile* file_at(std::string_view path) {
  std::string_view name = path == "/" ? "index.html" : path == "/dashboard" ? "dashboard.html" : "";
  if (path.starts_with(kFolder)) name = path.substr(kFolder.size());
  for (const WebFile& file : web_files())
    if (file.name == name) return &file;
  return nullptr;
}

// FNV-1a: another body, another tag.
std::string tag_of(std::string_view body) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : body) hash = (hash ^ uint8_t(c)) * 0x100000001b3;
  return strf("\"%016llx\"", (unsigned long long)hash);
}

}  // namespace

void get_web(ServerState&, Exchange exchange) {
  const HttpRequest& request = exchange.request();
  const WebFile* file = file_at(request.path);
  if (!file)
    return exchange.respond(
        error_response({.status = 404, .message = "there is no page " + request.path}));
  HttpResponse response{.content_type = std::string(file->type)};
  const std::string tag = tag_of(file->body);
  response.headers = {{"ETag", tag},
                      {"Cache-Control", "no-cache"},
                      {"Content-Security-Policy", kPolicy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"}};
  if (request.header("if-none-match") == tag)
    response.status = 304;
  else
    response.body = std::string(file->body);
  exchange.respond(std::move(response));
}

}  // namespace rose
