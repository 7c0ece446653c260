// What a client is told when its request cannot be answered: OpenAI's error body and a status.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "api/http.h"
#include "base/result.h"

namespace rose {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};  // the field at fault, "messages[2].content"; empty: null
  std::string code = {};   // "model_not_found"; empty: null
  int retry_after_s = 1;   // of 429 and 503
};

// {"error":{"message":…,"type":…,"param":…,"code":…}}; the type follows from the status.
std::string error_body(const ApiError& error);
HttpResponse error_response(const ApiError& error);

// The same for the API at `path`: Anthropic's has a shape of its own, {"type":"error","error":{…}}.
HttpResponse error_response(const ApiError& error, std::string_view path);
std::string anthropic_error_body(const ApiError& error);

// The one table from kinds of errors to statuses.
ApiError api_error(const Error& error);

// Keeps the first thing found wrong with a request.
struct Problem {
  std::optional<ApiError> first;

  void add(ApiError error) {
    if (!first) first = std::move(error);
  }
  explicit operator bool() const { return first.has_value(); }
};

}  // namespace rose
