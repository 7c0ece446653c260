#include "api/body.h"

#include "api/fields.h"
#include "base/check.h"
#include "base/json.h"

namespace rose {

std::optional<Json> parse_body(const ServeOptions& options, const std::string& text,
                               Problem& problem) {
  auto body = parse_json(text, options.max_json_depth);
  if (!body) {
    problem.add({.message = "the request's body: " + body.error().message});
    return std::nullopt;
  }
  if (!body->is_object()) {
    problem.add({.message = "the body is " + kind_of(*body) + ", wanted a JSON object"});
    return std::nullopt;
  }
  struct Limit {
    const char* field;
    int most;
  };
  const Limit limits[] = {{"messages", options.max_messages},
                          {"input", options.max_messages},
                          {"tools", options.max_tools}};
  for (const Limit& limit : limits) {
    const auto found = body->find(limit.field);
    if (found != body->end() && found->is_array() && found->size() > size_t(limit.most))
      problem.add({.message = strf("%zu of them, this server takes %d", found->size(), limit.most),
                   .param = limit.field});
  }
  if (const auto n = body->find("n");
      n != body->end() && n->is_number_integer() && n->get<int64_t>() > options.max_choices)
    problem.add(
        {.message = strf("%lld is not in 1..%d", (long long)n->get<int64_t>(), options.max_choices),
         .param = "n"});
  if (problem) return std::nullopt;
  return std::move(*body);
}

}  // namespace rose
