// POST /v1/responses, and what can be done with a response that is stored.
#include <algorithm>
#include <ctime>

#include "api/body.h"
#include "api/ids.h"
#include "api/intake.h"
#include "api/responses_answer.h"
#include "api/responses_request.h"
#include "api/routes.h"
#include "api/turn.h"
#include "base/check.h"

namespace rose {

namespace {

void instruct(ResponsesRequest& request) {
  if (!request.instructions.empty())
    request.prompt.messages.push_back(
        {.role = ChatMessage::Role::system, .content = request.instructions});
}

// Items that stand for stored ones become these.
void resolve_references(ApiContext& context, const std::string& owner, Json& input,
                        Problem& problem) {
  for (size_t i = 0; i < input.size() && !problem; ++i) {
    if (!input[i].is_object() || input[i].value("type", Json()) != "item_reference") continue;
    const std::string id = input[i]["id"];
    auto found = context.responses ? context.responses->item(id, owner)
                                   : Result<std::optional<std::string>>(std::nullopt);
    if (!found) return problem.add(api_error(found.error()));
    if (!*found)
      return problem.add({.status = 404,
                          .message = "item '" + id.substr(0, 80) + "' is not stored here",
                          .param = strf("input[%zu].id", i),
                          .code = "item_not_found"});
    input[i] = parse_json(**found).value_or(Json::object());
  }
}

// The whole conversation: what the request goes on from, then its own items. Instructions are this
// request's; those of earlier ones are gone.
void gather(ApiContext& context, const std::string& owner, ResponsesRequest& request,
            Problem& problem) {
  instruct(request);
  std::vector<ChatMessage>& messages = request.prompt.messages;
  if (!request.previous.empty()) {
    const auto chain = context.responses
                           ? context.responses->chain(request.previous, owner)
                           : fail(ErrorKind::not_found, "responses are not stored here");
    if (!chain) {
      ApiError error = api_error(chain.error());
      error.param = "previous_response_id";
      if (error.status == 404) error.code = "previous_response_not_found";
      return problem.add(std::move(error));
    }
    for (const StoredResponse& earlier : *chain) {
      if (earlier.running)
        return problem.add({.message = "response '" + earlier.id + "' is not complete yet",
                            .param = "previous_response_id"});
      const Json response = parse_json(earlier.response).value_or(Json::object());
      append_items(parse_json(earlier.input_items).value_or(Json::array()), "input", problem,
                   messages);
      append_items(response.value("output", Json::array()), "output", problem, messages);
    }
  }
  resolve_references(context, owner, request.input, problem);
  append_items(request.input, "input", problem, messages);
}

void check_storing(const ApiContext& context, ResponsesRequest& request, Problem& problem) {
  if (!context.responses) request.store = false;
  request.echo["store"] = request.store;
  if (request.background && !request.store)
    problem.add({.message = "background: a response that is not stored could never be fetched",
                 .param = "background"});
}

void prepare_response(ApiContext& context, const Json& body, Prepared& prepared) {
  Problem& problem = prepared.problem;
  ResponsesRequest request = parse_responses_request(body, context.tokenizer.vocab(), problem);
  prepared.ignored = request.ignored;
  if (problem) return;
  check_storing(context, request, problem);
  gather(context, prepared.owner, request, problem);
  if (problem) return;
  prepared.plan = plan_turn(context, request, "input", problem);
  if (problem) return;
  prepared.plan.outlives_client = request.background;
  std::set<std::string> custom_tools;
  for (const auto& [name, format] : request.custom_tools) custom_tools.insert(name);
  ResponsesAnswerOptions options = {
      .id = new_id("resp_", 32),
      .model = request.model,
      .owner = prepared.owner,
      .previous = request.previous,
      .created = std::time(nullptr),
      .echo = std::make_shared<const Json>(std::move(request.echo)),
      .input_items = dump_json(request.input),
      .store = request.store,
      .stream = request.stream,
      .background = request.background,
      .items = {.logprobs = request.logprobs,
                .encrypted_reasoning = request.encrypted_reasoning,
                .custom_tools = std::move(custom_tools)},
  };
  if (request.background) {
    const Status put = context.responses->put({.id = options.id,
                                               .created = options.created,
                                               .previous = options.previous,
                                               .owner = options.owner,
                                               .response = begun_response(options, "in_progress"),
                                               .input_items = options.input_items,
                                               .running = true},
                                              options.created);
    if (!put) return problem.add(api_error(put.error()));
  }
  prepared.answer = [&context, options](Exchange exchange, Headers headers) mutable {
    options.headers = std::move(headers);
    return make_responses_answer(context, std::move(exchange), std::move(options));
  };
}

// ---- stored responses

// The part of the path that the route's '*' stands for.
std::string id_in(const HttpRequest& request, std::string_view after = "") {
  constexpr std::string_view kBefore = "/v1/responses/";
  return request.path.substr(kBefore.size(), request.path.size() - kBefore.size() - after.size());
}

std::optional<StoredResponse> find(ApiContext& context, const Exchange& exchange,
                                   const std::string& id, Problem& problem) {
  std::optional<StoredResponse> found;
  if (context.responses) {
    auto looked_up = context.responses->find(id, owner_of(exchange));
    if (!looked_up) {
      problem.add(api_error(looked_up.error()));
      return {};
    }
    found = std::move(*looked_up);
  }
  if (!found)
    problem.add({.status = 404,
                 .message = "response '" + id.substr(0, 80) + "' is not stored here",
                 .param = "response_id",
                 .code = "response_not_found"});
  return found;
}

// One page of a list of items: `after` an id, at most `limit`, the newest first unless asked otherwise.
Json page_of(Json items, const HttpRequest& request, Problem& problem) {
  const std::string order = query_value(request.query, "order");
  if (!order.empty() && order != "asc" && order != "desc")
    problem.add(
        {.message = "order: '" + order.substr(0, 20) + "', wanted asc or desc", .param = "order"});
  if (order != "asc") std::reverse(items.begin(), items.end());
  const std::string asked = query_value(request.query, "limit");
  const int limit = asked.empty() ? 20 : asked.size() > 3 ? 0 : std::atoi(asked.c_str());
  if (limit < 1 || limit > 100)
    problem.add(
        {.message = "limit: '" + asked.substr(0, 20) + "' is not in 1..100", .param = "limit"});
  const std::string after = query_value(request.query, "after");
  Json page = Json::array();
  bool begun = after.empty(), more = false;
  for (Json& item : items) {
    if (begun && int(page.size()) >= limit)
      more = true;
    else if (begun)
      page.push_back(std::move(item));
    else
      begun = item.value("id", "") == after;
  }
  const Json first = page.empty() ? Json() : page.front()["id"];
  const Json last = page.empty() ? Json() : page.back()["id"];
  return {{"object", "list"},
          {"data", std::move(page)},
          {"first_id", first},
          {"last_id", last},
          {"has_more", more}};
}

// How many events the client has: one more than the number of its last.
int64_t events_seen(const HttpRequest& request, Problem& problem) {
  const std::string after = query_value(request.query, "starting_after");
  if (after.empty()) return 0;
  if (after.size() > 18 || after.find_first_not_of("0123456789") != after.npos) {
    problem.add({.message = "starting_after: '" + after.substr(0, 20) + "' is no event's number",
                 .param = "starting_after"});
    return 0;
  }
  return std::atoll(after.c_str()) + 1;
}

// On the connection's thread.
void follow_events(ApiContext& context, Exchange exchange, const std::string& id, int64_t seen) {
  const uint64_t name = context.events.new_name();
  const auto reader = [exchange](const std::string& events, bool last) {
    exchange.post([exchange, events, last]() mutable {
      exchange.write(events);
      if (last) exchange.end();
    });
  };
  if (!context.events.follow(id, seen, name, reader))
    return exchange.respond(error_response(
        {.message =
             "the events of this response are not kept: only those of one in the background "
             "that was asked for as a stream are, for a while; without stream it comes whole",
         .param = "stream"}));
  exchange.begin(event_stream_head({}));
  exchange.on_close([&context, id, name] { context.events.leave(id, name); });
}

void stream_response(ApiContext& context, Exchange exchange) {
  exchange.offload([&context, exchange] {
    Problem problem;
    const std::string id = id_in(exchange.request());
    const int64_t seen = events_seen(exchange.request(), problem);
    find(context, exchange, id, problem);
    exchange.post([&context, exchange, problem, id, seen]() mutable {
      if (problem) return exchange.respond(error_response(*problem.first));
      follow_events(context, exchange, id, seen);
    });
  });
}

Json count_input(ApiContext& context, const std::string& owner, const Json& body,
                 Problem& problem) {
  ResponsesRequest request = parse_responses_request(body, context.tokenizer.vocab(), problem);
  if (problem) return {};
  check_model(context, request.model, problem);
  gather(context, owner, request, problem);
  if (problem) return {};
  const std::vector<int> tokens = render_turn(context, request.prompt, "input", problem);
  return {{"object", "response.input_tokens"}, {"input_tokens", tokens.size()}};
}

}  // namespace

void post_responses(ApiContext& context, Exchange exchange) {
  answer_by_generation(context, std::move(exchange), prepare_response);
}

void post_input_tokens(ApiContext& context, Exchange exchange) {
  answer_on_pool(exchange, [&context, exchange](Problem& problem) {
    HttpResponse response;
    const auto body = parse_body(context.options, exchange.request().body, problem);
    if (body) response.body = dump_json(count_input(context, owner_of(exchange), *body, problem));
    return response;
  });
}

void get_response(ApiContext& context, Exchange exchange) {
  if (query_value(exchange.request().query, "stream") == "true")
    return stream_response(context, std::move(exchange));
  answer_on_pool(exchange, [&context, exchange](Problem& problem) {
    HttpResponse response;
    if (auto found = find(context, exchange, id_in(exchange.request()), problem))
      response.body = std::move(found->response);
    return response;
  });
}

void delete_response(ApiContext& context, Exchange exchange) {
  answer_on_pool(exchange, [&context, exchange](Problem& problem) {
    const std::string id = id_in(exchange.request());
    if (find(context, exchange, id, problem)) {
      context.events.remove(id);
      context.background.stop(id, {.status = 499, .message = "deleted", .code = "deleted"});
      if (const auto removed = context.responses->remove(id, owner_of(exchange)); !removed)
        problem.add(api_error(removed.error()));
    }
    return HttpResponse{.body = dump_json({{"id", id}, {"object", "response"}, {"deleted", true}})};
  });
}

void cancel_response(ApiContext& context, Exchange exchange) {
  answer_on_pool(exchange, [&context, exchange](Problem& problem) {
    const std::string id = id_in(exchange.request(), "/cancel");
    HttpResponse response;
    auto found = find(context, exchange, id, problem);
    if (!found) return response;
    Json object = parse_json(found->response).value_or(Json::object());
    if (object.value("background", false) != true)
      problem.add({.message = "only a response in the background can be cancelled"});
    // What has ended in the meantime stays as it is.
    else if (context.background.stop(id,
                                     {.status = 499, .message = "cancelled", .code = "cancelled"}))
      object["status"] = "cancelled";
    else if (auto again = find(context, exchange, id, problem))
      object = parse_json(again->response).value_or(Json::object());
    response.body = dump_json(object);
    return response;
  });
}

void get_input_items(ApiContext& context, Exchange exchange) {
  answer_on_pool(exchange, [&context, exchange](Problem& problem) {
    HttpResponse response;
    if (const auto found =
            find(context, exchange, id_in(exchange.request(), "/input_items"), problem))
      response.body = dump_json(page_of(parse_json(found->input_items).value_or(Json::array()),
                                        exchange.request(), problem));
    return response;
  });
}

}  // namespace rose
