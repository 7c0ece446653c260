#include "api/access.h"

#include <openssl/evp.h>

#include <algorithm>

namespace rose {

namespace {

std::string decode_base64(std::string_view text) {
  if (text.size() % 4 != 0 || text.size() > 4096) return {};
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), int(text.size()));
  if (size < 0) return {};
  bytes.resize(size_t(size));
  while (text.ends_with('=') && !bytes.empty()) text.remove_suffix(1), bytes.pop_back();
  return bytes;
}

bool cut_scheme(std::string_view& text, std::string_view scheme) {
  if (text.size() <= scheme.size() || text[scheme.size()] != ' ') return false;
  for (size_t i = 0; i < scheme.size(); ++i)
    if ((text[i] | 0x20) != scheme[i]) return false;
  text.remove_prefix(scheme.size());
  while (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

}  // namespace

std::string presented_key(const HttpRequest& request) {
  std::string_view text = request.header("authorization");
  if (cut_scheme(text, "bearer")) return std::string(text);
  if (cut_scheme(text, "basic")) {
    const std::string pair = decode_base64(text);
    const size_t colon = pair.find(':');
    return colon == pair.npos ? std::string() : pair.substr(colon + 1);
  }
  return std::string(request.header("x-api-key"));
}

Access find_access(const Keys& keys, const HttpRequest& request, unsigned scopes) {
  if (!keys.required() || scopes == kNone) return {keys.anyone()};
  const std::string key = presented_key(request);
  const std::shared_ptr<Tenant> tenant = key.empty() ? nullptr : keys.find(key);
  if (tenant && (tenant->scopes() & scopes) != 0) return {tenant};
  if (tenant)
    return {nullptr, error_response({.status = 403,
                                     .message = "this key may not call " + request.path,
                                     .code = "insufficient_scope"},
                                    request.path)};
  HttpResponse response =
      error_response({.status = 401,
                      .message = key.empty() ? "no API key given: send Authorization: Bearer KEY"
                                             : "the API key is not valid",
                      .code = "invalid_api_key"},
                     request.path);
  // A browser asks its user for a name, which does not matter, and a password, which is the key.
  const bool page = request.header("accept").find("text/html") != std::string_view::npos;
  response.headers.emplace_back("WWW-Authenticate", page ? "Basic realm=\"rose\"" : "Bearer");
  return {nullptr, std::move(response)};
}

std::string allowed_origin(const std::vector<std::string>& allowed, const HttpRequest& request) {
  const std::string_view origin = request.header("origin");
  if (origin.empty()) return {};
  for (const std::string& one : allowed)
    if (one == "*" || one == origin) return one;
  return {};
}

}  // namespace rose
