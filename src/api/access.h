// Who is asking, and whether they may: before any handler sees a request.
#pragma once
#include "api/errors.h"
#include "api/http.h"
#include "api/keys.h"

namespace rose {

// The key of a request: "Authorization: Bearer KEY", "x-api-key: KEY", or the password of "Authorization:
// Basic …", which is how a browser asks its user. Empty: none.
std::string presented_key(const HttpRequest& request);

struct Access {
  std::shared_ptr<Tenant> tenant;  // null: refused
  std::optional<HttpResponse> refusal = {};
};
// A key needs one of `scopes`; kNone: nobody needs one.
Access find_access(const Keys& keys, const HttpRequest& request, unsigned scopes);

// The origin to name in Access-Control-Allow-Origin; empty: none of the allowed ones asks.
std::string allowed_origin(const std::vector<std::string>& allowed, const HttpRequest& request);

}  // namespace rose
