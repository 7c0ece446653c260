#include "api/intake.h"

#include <algorithm>

#include "api/body.h"
#include "api/tenant.h"
#include "base/clock.h"
#include "base/json.h"

namespace rose {

namespace {

// The client learns which of its fields had no effect.
Headers ignored_header(ApiContext& context, const std::vector<std::string>& ignored) {
  std::string names;
  for (const std::string& name : ignored) {
    context.metrics.ignored_field(name);
    if (names.size() < 500) names += (names.empty() ? "" : ", ") + name.substr(0, 64);
  }
  if (names.empty()) return {};
  return {{"X-Rose-Ignored-Params", names}};
}

void refuse_ignored(const ApiContext& context, Prepared& prepared) {
  if (!context.options.strict_params || prepared.ignored.empty()) return;
  const std::string& name = prepared.ignored.front();
  prepared.problem.add({.message = name.substr(0, 80) + ": nobody knows this field",
                        .param = name,
                        .code = "unknown_parameter"});
}

void begin(ApiContext& context, Exchange& exchange, Prepared& prepared) {
  if (!prepared.problem && context.draining)
    prepared.problem.add({.status = 503, .message = "the server is shutting down"});
  if (prepared.problem) {
    context.metrics.ended({.reason = "rejected"});
    return exchange.respond(error_response(*prepared.problem.first, exchange.request().path));
  }
  auto answer = prepared.answer(exchange, ignored_header(context, prepared.ignored));
  Generation::start(context, exchange, std::move(prepared.plan), std::move(answer));
}

}  // namespace

std::string owner_of(const Exchange& exchange) {
  const std::shared_ptr<Tenant> tenant = exchange.request().tenant;
  return tenant ? tenant->name() : "";
}

void answer_by_generation(ApiContext& context, Exchange exchange,
                          void (*prepare)(ApiContext& context, const Json& body,
                                          Prepared& prepared)) {
  const Time arrived = Clock::now();
  exchange.offload([&context, exchange, arrived, prepare] {
    // The request stays as it is until it is answered, also when its client leaves.
    const auto prepared = std::make_shared<Prepared>();
    const std::optional<Json> body =
        parse_body(context.options, exchange.request().body, prepared->problem);
    prepared->owner = owner_of(exchange);
    if (body) prepare(context, *body, *prepared);
    refuse_ignored(context, *prepared);
    prepared->plan.arrived = arrived;
    exchange.post(
        [&context, exchange, prepared]() mutable { begin(context, exchange, *prepared); });
  });
}

void answer_by_json(ApiContext& context, Exchange exchange,
                    Json (*answer)(ApiContext& context, const Json& body, Problem& problem)) {
  answer_on_pool(exchange, [&context, exchange, answer](Problem& problem) {
    HttpResponse response;
    const std::optional<Json> body = parse_body(context.options, exchange.request().body, problem);
    if (body) response.body = dump_json(answer(context, *body, problem));
    return response;
  });
}

void answer_on_pool(Exchange exchange, std::function<HttpResponse(Problem& problem)> work) {
  exchange.offload([exchange, work = std::move(work)] {
    Problem problem;
    auto response = std::make_shared<HttpResponse>(work(problem));
    if (problem) *response = error_response(*problem.first, exchange.request().path);
    exchange.post([exchange, response]() mutable { exchange.respond(std::move(*response)); });
  });
}

std::string query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    const size_t equals = part.find('=');
    if (part.substr(0, equals) != name) continue;
    if (equals == part.npos) return {};
    std::string value;
    for (size_t i = equals + 1; i < part.size(); ++i) {
      const auto digit = [&](size_t at) {
        const char c = at < part.size() ? part[at] : 'x';
        return c >= '0' && c <= '9'   ? c - '0'
               : c >= 'a' && c <= 'f' ? c - 'a' + 10
               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                      : -1;
      };
      if (part[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0) {
        value += char(digit(i + 1) * 16 + digit(i + 2));
        i += 2;
      } else {
        value += part[i] == '+' ? ' ' : part[i];
      }
    }
    return value;
  }
  return {};
}

HttpResponse event_stream_head(Headers headers) {
  HttpResponse head{.content_type = "text/event-stream; charset=utf-8"};
  head.headers = std::move(headers);
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");
  return head;
}

}  // namespace rose
