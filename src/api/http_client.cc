#include "api/http_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <cerrno>

namespace rose {

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {
// How long a read waits before it looks whether to stop.
constexpr timeval kPoll = {.tv_sec = 0, .tv_usec = 100'000};
constexpr int kConnect_ms = 10'000;

// Connects, but waits no longer than that, and not after `stop`. The socket blocks afterwards.
boost::system::error_code connect_within(asio::ip::tcp::socket& socket,
                                         const asio::ip::tcp::endpoint& endpoint,
                                         const std::atomic<bool>& stop) {
  boost::system::error_code error;
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
}  // namespace

Result<HttpUrl> parse_url(const std::string& url) {
  const std::string scheme = "http://";
  if (url.rfind("https://", 0) == 0)
    return fail(ErrorKind::unsupported,
                url + ": https is not supported, use a proxy that ends TLS");
  if (url.rfind(scheme, 0) != 0)
    return fail(ErrorKind::usage, "'" + url + "' is no URL, wanted http://HOST[:PORT][/PATH]");
  HttpUrl parsed;
  std::string rest = url.substr(scheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  parsed.path = rest.substr(slash);
  while (!parsed.path.empty() && parsed.path.back() == '/') parsed.path.pop_back();
  rest.resize(slash);

  // The port follows the last colon, unless that colon is inside an address like [::1].
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string::npos && rest.find(']', colon) == std::string::npos;
  parsed.host = has_port ? rest.substr(0, colon) : rest;
  parsed.port = has_port ? rest.substr(colon + 1) : "80";
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
  const std::string server = post.url.host + ":" + post.url.port;
  boost::system::error_code error;
  const auto failed = [&](const char* doing) {
    return fail(ErrorKind::io, std::string(doing) + " " + server + ": " + error.message());
  };

  asio::io_context context;
  asio::ip::tcp::resolver resolver(context);
  const auto addresses = resolver.resolve(post.url.host, post.url.port, error);
  if (error) return failed("finding");
  asio::ip::tcp::socket socket(context);
  for (const auto& address : addresses) {
    error = connect_within(socket, address.endpoint(), stop);
    if (!error) break;
  }
  if (error) return failed("connecting to");

  http::request<http::string_body> request(post.body.empty() ? http::verb::get : http::verb::post,
                                           post.url.path + post.target, 11);
  request.set(http::field::host, server);
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  if (!post.bearer.empty()) request.set(http::field::authorization, "Bearer " + post.bearer);
  request.body() = post.body;
  request.prepare_payload();
  http::write(socket, request, error);
  if (error) return failed("writing to");

  ::setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &kPoll, sizeof kPoll);
  boost::beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  char piece[16384];
  while (!parser.is_done() && !stop) {
    parser.get().body().data = piece;
    parser.get().body().size = sizeof piece;
    http::read_some(socket, buffer, parser, error);
    if (error == http::error::need_buffer || error == asio::error::try_again ||
        error == asio::error::would_block)
      error = {};
    if (error) return failed("reading from");
    const size_t read = parser.is_header_done() ? sizeof piece - parser.get().body().size : 0;
    if (read > 0) on_bytes({piece, read});
  }
  return parser.is_header_done() ? int(parser.get().result_int()) : 0;
}

}  // namespace rose
