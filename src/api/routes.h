// Which handler answers which method and path.
#pragma once
#include <span>
#include <string_view>

#include "api/http.h"
#include "api/tenant.h"

namespace rose {

struct ApiContext;
struct ServerState;

// What of the routes a listener serves.
enum class Side { front, admin };

struct Route {
  const char* method;
  const char* path;  // one '*' in it stands for anything that is not empty
  void (*handle)(ApiContext& context, Exchange exchange);  // null: the next
  unsigned scopes = kInfer;  // a key needs one of them; kNone: nobody needs a key
  void (*probe)(ServerState& state, Exchange exchange) = nullptr;  // needs no model
};

std::span<const Route> routes();

// The route of a request (GET's for HEAD); null if there is none.
const Route* find_route(std::string_view method, std::string_view path);

// Answers a request: by its handler, or 404, 405, or what OPTIONS asks for.
void route(ServerState& state, Side side, Exchange exchange);

// The handlers, on the connection's thread.
void post_chat_completions(ApiContext& context, Exchange exchange);  // chat.cc
void post_render(ApiContext& context, Exchange exchange);            // chat.cc
void post_completions(ApiContext& context, Exchange exchange);       // completions.cc
void post_responses(ApiContext& context, Exchange exchange);         // responses.cc
void post_input_tokens(ApiContext& context, Exchange exchange);      // responses.cc
void get_response(ApiContext& context, Exchange exchange);           // responses.cc
void delete_response(ApiContext& context, Exchange exchange);        // responses.cc
void cancel_response(ApiContext& context, Exchange exchange);        // responses.cc
void get_input_items(ApiContext& context, Exchange exchange);        // responses.cc
void post_messages(ApiContext& context, Exchange exchange);          // messages.cc
void post_count_tokens(ApiContext& context, Exchange exchange);      // messages.cc
void post_tokenize(ApiContext& context, Exchange exchange);          // tokenize.cc
void post_detokenize(ApiContext& context, Exchange exchange);        // tokenize.cc
void get_tokenizer_info(ApiContext& context, Exchange exchange);     // tokenize.cc
void get_models(ApiContext& context, Exchange exchange);             // models.cc
void get_model(ApiContext& context, Exchange exchange);              // models.cc
void get_health_generate(ApiContext& context, Exchange exchange);    // health_generate.cc
void get_load(ApiContext& context, Exchange exchange);               // health.cc
void get_health(ServerState& state, Exchange exchange);              // health.cc
void get_startup(ServerState& state, Exchange exchange);             // health.cc
void get_live(ServerState& state, Exchange exchange);                // health.cc
void get_openapi(ServerState& state, Exchange exchange);             // openapi.cc
void get_version(ServerState& state, Exchange exchange);             // health.cc
void get_metrics(ServerState& state, Exchange exchange);             // health.cc
void get_keys(ServerState& state, Exchange exchange);                // admin.cc
void post_reload(ServerState& state, Exchange exchange);             // admin.cc
void get_web(ServerState& state, Exchange exchange);                 // web.cc

}  // namespace rose
