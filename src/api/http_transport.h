// The bytes of one connection, plain or through TLS (OpenSSL). Nothing here blocks: what cannot go on
// says what it waits for.
#pragma once
#include <memory>
#include <string>

#include "api/http_asio.h"
#include "api/tls.h"

struct ssl_st;

namespace rose {

enum class Io { done, want_read, want_write, failed };  // failed: ended as well

class Transport {
 public:
  // `tls`: null for plain bytes. The socket must outlive this and not block.
  Transport(tcp::socket& socket, const std::shared_ptr<const TlsContext>& tls);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  Io read_some(char* into, size_t most, size_t& bytes);
  Io write_some(const char* from, size_t count, size_t& bytes);
  bool pending() const;  // bytes have been received that read_some gives without the socket
  void say_goodbye();    // nothing more will be written

 private:
  Io outcome(int result) const;
  tcp::socket& socket_;
  std::shared_ptr<const TlsContext> tls_;
  ssl_st* ssl_ = nullptr;
};

}  // namespace rose
