#include "api/http_transport.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>

namespace rose {

namespace {

constexpr size_t kMost = 1 << 30;  // OpenSSL counts in ints

}  // namespace

Transport::Transport(tcp::socket& socket, const std::shared_ptr<const TlsContext>& tls)
    : socket_(socket), tls_(tls) {
  if (!tls_) return;
  ssl_ = SSL_new(tls_->native());
  if (!ssl_) return;
  SSL_set_fd(ssl_, int(socket_.native_handle()));
  SSL_set_accept_state(ssl_);  // the handshake happens within the first reads
}

Transport::~Transport() { SSL_free(ssl_); }

Io Transport::outcome(int result) const {
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ: return Io::want_read;
    case SSL_ERROR_WANT_WRITE: return Io::want_write;
  }
  return Io::failed;
}

Io Transport::read_some(char* into, size_t most, size_t& bytes) {
  bytes = 0;
  if (!tls_) {
    error_code error;
    bytes = socket_.read_some(asio::buffer(into, most), error);
    if (error == asio::error::would_block || error == asio::error::interrupted)
      return Io::want_read;
    return error ? Io::failed : Io::done;
  }
  if (!ssl_) return Io::failed;
  ERR_clear_error();
  const int result = SSL_read(ssl_, into, int(std::min(most, kMost)));
  if (result <= 0) return outcome(result);
  bytes = size_t(result);
  return Io::done;
}

Io Transport::write_some(const char* from, size_t count, size_t& bytes) {
  bytes = 0;
  if (!tls_) {
    error_code error;
    do {
      bytes = socket_.write_some(asio::buffer(from, count), error);
    } while (error == asio::error::interrupted);
    if (error == asio::error::would_block) return Io::want_write;
    return error ? Io::failed : Io::done;
  }
  if (!ssl_) return Io::failed;
  ERR_clear_error();
  const int result = SSL_write(ssl_, from, int(std::min(count, kMost)));
  if (result <= 0) return outcome(result);
  bytes = size_t(result);
  return Io::done;
}

bool Transport::pending() const { return ssl_ && SSL_pending(ssl_) > 0; }

void Transport::say_goodbye() {
  if (ssl_ && SSL_is_init_finished(ssl_)) {
    ERR_clear_error();
    SSL_shutdown(ssl_);
  }
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
}

}  // namespace rose
