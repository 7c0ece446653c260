#include "api/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include "base/check.h"

namespace rose {

namespace {

std::string reason() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* text = code ? ERR_reason_error_string(code) : nullptr;
  return text ? text : "unknown reason";
}

Status wrong(const std::string& option, const std::string& file) {
  return fail(ErrorKind::invalid, option + " " + file + ": " + reason());
}

Status fill(SSL_CTX* context, const TlsOptions& options) {
  if (SSL_CTX_use_certificate_chain_file(context, options.certfile.c_str()) != 1)
    return wrong("--ssl-certfile", options.certfile);
  const std::string& key = options.keyfile.empty() ? options.certfile : options.keyfile;
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1)
    return wrong("--ssl-keyfile", key);
  if (SSL_CTX_check_private_key(context) != 1) return wrong("--ssl-keyfile", key);
  if (options.cert_reqs < 0 || options.cert_reqs > 2)
    return fail(ErrorKind::usage, "--ssl-cert-reqs: wanted 0, 1 or 2");
  if (!options.ca_certs.empty() &&
      SSL_CTX_load_verify_locations(context, options.ca_certs.c_str(), nullptr) != 1)
    return wrong("--ssl-ca-certs", options.ca_certs);
  if (options.cert_reqs > 0) {
    if (options.ca_certs.empty())
      return fail(ErrorKind::usage, "--ssl-cert-reqs needs --ssl-ca-certs");
    SSL_CTX_set_verify(
        context, SSL_VERIFY_PEER | (options.cert_reqs == 2 ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
        nullptr);
  }
  return Done{};
}

}  // namespace

std::string tls_stamp(const TlsOptions& options) {
  std::string stamp;
  for (const std::string* file : {&options.certfile, &options.keyfile, &options.ca_certs}) {
    struct stat found {};
    if (!file->empty()) ::stat(file->c_str(), &found);
    stamp += strf("%ld.%ld/%ld/%lu ", long(found.st_mtim.tv_sec), long(found.st_mtim.tv_nsec),
                  long(found.st_size), static_cast<unsigned long>(found.st_ino));
  }
  return stamp;
}

Result<std::shared_ptr<const TlsContext>> TlsContext::load(const TlsOptions& options) {
  ERR_clear_error();
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  if (!context) return fail(ErrorKind::io, "TLS: " + reason());
  std::shared_ptr<const TlsContext> owner(new TlsContext(context));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // A client cannot make us renegotiate, and a write that could not go on may come back longer.
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_RELEASE_BUFFERS);
  static const unsigned char kSession[] = "rose";
  SSL_CTX_set_session_id_context(context, kSession, sizeof kSession - 1);
  SSL_CTX_set_alpn_select_cb(
      context,
      [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char* in,
         unsigned in_size, void*) {
        static const unsigned char kHttp[] = "\x08http/1.1";
        return SSL_select_next_proto(const_cast<unsigned char**>(out), size, kHttp,
                                     sizeof kHttp - 1, in, in_size) == OPENSSL_NPN_NEGOTIATED
                   ? SSL_TLSEXT_ERR_OK
                   : SSL_TLSEXT_ERR_NOACK;
      },
      nullptr);
  TRY(fill(context, options));
  return owner;
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

}  // namespace rose
