// One POST to an HTTP server whose answer is read as it comes: for `rose chat --url` and benchmarks.
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rose {

struct HttpUrl {
  std::string host;
  std::string port;  // "80"
  std::string path;  // "" or "/v1": without a slash at its end
  bool tls = false;  // https
};

// "http://host[:port][/path]", or https.
Result<HttpUrl> parse_url(const std::string& url);

struct HttpPost {  // a GET where there is no body
  HttpUrl url;
  std::string target;  // appended to the url's path: "/chat/completions"
  std::string bearer;  // of the Authorization header; empty: none
  std::string body;    // JSON
};

// A server's certificate is checked against its name and the system's roots ($SSL_CERT_FILE, $SSL_CERT_DIR).
// Gives the body's pieces to `on_bytes` and returns the status code. Ends early, with what has come so
// far, when `stop` becomes true.
Result<int> http_post(const HttpPost& post, const std::function<void(std::string_view)>& on_bytes,
                      const std::atomic<bool>& stop);

}  // namespace rose
