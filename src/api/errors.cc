#include "api/errors.h"

#include "api/json_text.h"

namespace rose {

namespace {

const char* type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 503: return "service_unavailable_error";
    case 504: return "timeout_error";
  }
  return status < 500 ? "invalid_request_error" : "server_error";
}

const char* anthropic_type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
  }
  return status < 500 ? "invalid_request_error" : "api_error";
}

void append_or_null(std::string& out, const std::string& text) {
  if (text.empty())
    out += "null";
  else
    append_json_string(out, text);
}

}  // namespace

std::string error_body(const ApiError& error) {
  std::string body = R"({"error":{"message":)";
  append_json_string(body, error.message);
  body += R"(,"type":)";
  append_json_string(body, type_of(error.status));
  body += R"(,"param":)";
  append_or_null(body, error.param);
  body += R"(,"code":)";
  append_or_null(body, error.code);
  return body + "}}";
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = error_body(error)};
  if (error.status == 429 || error.status == 503)
    response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  return response;
}

HttpResponse error_response(const ApiError& error, std::string_view path) {
  HttpResponse response = error_response(error);
  if (path.starts_with("/v1/messages")) response.body = anthropic_error_body(error);
  return response;
}

std::string anthropic_error_body(const ApiError& error) {
  std::string body = R"({"type":"error","error":{"type":)";
  append_json_string(body, anthropic_type_of(error.status));
  body += R"(,"message":)";
  append_json_string(body, error.message);
  return body + "}}";
}

ApiError api_error(const Error& error) {
  const auto status = [&] {
    switch (error.kind) {
      case ErrorKind::not_found: return 404;
      case ErrorKind::busy: return 429;
      case ErrorKind::cancelled: return 503;
      case ErrorKind::corrupt:
      case ErrorKind::io: return 500;
      default: return 400;  // what the client asked for is impossible
    }
  }();
  return {.status = status, .message = error.message};
}

}  // namespace rose
