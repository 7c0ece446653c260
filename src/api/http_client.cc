#include "api/http_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "api/http_asio.h"
// Asio's configuration before the rest of it.
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <cerrno>

namespace rose {

namespace http = boost::beast::http;

namespace {
// How long a read waits before it looks whether to stop.
constexpr timeval kPoll = {.tv_sec = 0, .tv_usec = 100'000};
constexpr int kConnect_ms = 10'000;

// Connects, but waits no longer than that, and not after `stop`. The socket blocks afterwards.
error_code connect_within(tcp::socket& socket, const tcp::endpoint& endpoint,
                          const std::atomic<bool>& stop) {
  error_code error;
  socket.close(error);
  socket.open(endpoint.protocol(), error);
  if (!error) socket.non_blocking(true, error);
  if (error) return error;
  if (::connect(socket.native_handle(), endpoint.data(), socklen_t(endpoint.size())) != 0) {
    if (errno != EINPROGRESS) return {errno, boost::system::system_category()};
    pollfd waiting{.fd = socket.native_handle(), .events = POLLOUT, .revents = 0};
    int ready = 0;
    for (int waited_ms = 0; ready <= 0 && waited_ms < kConnect_ms && !stop; waited_ms += 100)
      ready = ::poll(&waiting, 1, 100);
    if (ready <= 0) return asio::error::timed_out;
    int found = 0;
    socklen_t size = sizeof found;
    ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_ERROR, &found, &size);
    if (found != 0) return {found, boost::system::system_category()};
  }
  socket.non_blocking(false, error);
  return error;
}

bool try_again(const error_code& error) {
  return error == asio::error::try_again || error == asio::error::would_block;
}

using Failure = tl::unexpected<Error>;
Failure failed(const char* doing, const HttpUrl& url, const error_code& error) {
  return fail(ErrorKind::io,
              std::string(doing) + " " + url.host + ":" + url.port + ": " + error.message());
}

http::request<http::string_body> request_of(const HttpPost& post) {
  http::request<http::string_body> request(post.body.empty() ? http::verb::get : http::verb::post,
                                           post.url.path + post.target, 11);
  request.set(http::field::host, post.url.host + ":" + post.url.port);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!post.bearer.empty()) request.set(http::field::authorization, "Bearer " + post.bearer);
  request.body() = post.body;
  request.prepare_payload();
  return request;
}

// Over a stream of either kind, whose reads wait no longer than kPoll.
template <class Stream>
Result<int> exchange(Stream& stream, const HttpPost& post,
                     const std::function<void(std::string_view)>& on_bytes,
                     const std::atomic<bool>& stop) {
  error_code error;
  http::write(stream, request_of(post), error);
  if (error) return failed("writing to", post.url, error);
  boost::beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  char piece[16384];
  while (!parser.is_done() && !stop) {
    parser.get().body().data = piece;
    parser.get().body().size = sizeof piece;
    http::read_some(stream, buffer, parser, error);
    if (error == http::error::need_buffer || try_again(error)) error = {};
    if (error) return failed("reading from", post.url, error);
    const size_t read = parser.is_header_done() ? sizeof piece - parser.get().body().size : 0;
    if (read > 0) on_bytes({piece, read});
  }
  return parser.is_header_done() ? int(parser.get().result_int()) : 0;
}

Result<int> exchange_tls(tcp::socket& socket, const HttpPost& post,
                         const std::function<void(std::string_view)>& on_bytes,
                         const std::atomic<bool>& stop) {
  asio::ssl::context context(asio::ssl::context::tls_client);
  error_code error;
  context.set_default_verify_paths(error);
  asio::ssl::stream<tcp::socket&> stream(socket, context);
  stream.set_verify_mode(asio::ssl::verify_peer, error);
  stream.set_verify_callback(asio::ssl::host_name_verification(post.url.host), error);
  error_code no_address;
  asio::ip::make_address(post.url.host, no_address);
  if (no_address) SSL_set_tlsext_host_name(stream.native_handle(), post.url.host.c_str());
  int waited_ms = 0;
  do {
    stream.handshake(asio::ssl::stream_base::client, error);
  } while (try_again(error) && !stop && (waited_ms += 100) < kConnect_ms);
  if (error) return failed("TLS with", post.url, error);
  return exchange(stream, post, on_bytes, stop);
}
}  // namespace

Result<HttpUrl> parse_url(const std::string& url) {
  const bool tls = url.rfind("https://", 0) == 0;
  const std::string scheme = tls ? "https://" : "http://";
  if (url.rfind(scheme, 0) != 0)
    return fail(ErrorKind::usage, "'" + url + "' is no URL, wanted http://HOST[:PORT][/PATH]");
  HttpUrl parsed = {.tls = tls};
  std::string rest = url.substr(scheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  parsed.path = rest.substr(slash);
  while (!parsed.path.empty() && parsed.path.back() == '/') parsed.path.pop_back();
  rest.resize(slash);

  // The port follows the last colon, unless that colon is inside an address like [::1].
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string::npos && rest.find(']', colon) == std::string::npos;
  parsed.host = has_port ? rest.substr(0, colon) : rest;
  parsed.port = has_port ? rest.substr(colon + 1) : tls ? "443" : "80";
  if (parsed.host.size() > 2 && parsed.host.front() == '[')
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  bool digits = !parsed.port.empty();
  for (const char c : parsed.port) digits = digits && std::isdigit(static_cast<unsigned char>(c));
  if (parsed.host.empty() || !digits)
    return fail(ErrorKind::usage, "'" + url + "' is no URL, wanted http://HOST[:PORT][/PATH]");
  return parsed;
}

Result<int> http_post(const HttpPost& post, const std::function<void(std::string_view)>& on_bytes,
                      const std::atomic<bool>& stop) {
  error_code error;
  asio::io_context context;
  tcp::resolver resolver(context);
  const auto addresses = resolver.resolve(post.url.host, post.url.port, error);
  if (error) return failed("finding", post.url, error);
  tcp::socket socket(context);
  for (const auto& address : addresses) {
    error = connect_within(socket, address.endpoint(), stop);
    if (!error) break;
  }
  if (error) return failed("connecting to", post.url, error);
  ::setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &kPoll, sizeof kPoll);
  return post.url.tls ? exchange_tls(socket, post, on_bytes, stop)
                      : exchange(socket, post, on_bytes, stop);
}

}  // namespace rose
