// Certificate and key of a TLS server, as OpenSSL holds them. A reload makes a new one; connections keep
// the one they began with.
#pragma once
#include <memory>
#include <string>

#include "base/result.h"

struct ssl_ctx_st;

namespace rose {

struct TlsOptions {
  std::string certfile;  // PEM: the certificate, and those between it and a root
  std::string keyfile;   // PEM; empty: in certfile
  std::string ca_certs;  // PEM: who may sign the certificates of clients
  int cert_reqs = 0;     // 0: clients need none; 1: it is checked if there is one; 2: they need one
};

// Differs when one of the files has become another.
std::string tls_stamp(const TlsOptions& options);

class TlsContext {
 public:
  static Result<std::shared_ptr<const TlsContext>> load(const TlsOptions& options);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ssl_ctx_st* native() const { return context_; }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* context_;
};

}  // namespace rose
