// HTTPS: a certificate made here, a client of OpenSSL's.
#include "api/tls.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <filesystem>

#include "api/http.h"
#include "api/http_client.h"
#include "api/server_fixture.h"

namespace rose {
namespace {

// A self-signed certificate for `name` and its key, in one PEM file.
void write_certificate(const std::string& file, const std::string& name) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate, subject);
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  X509_add_ext(certificate, names, -1);
  X509_EXTENSION_free(names);
  X509_sign(certificate, key, EVP_sha256());
  FILE* out = std::fopen(file.c_str(), "w");
  ASSERT_TRUE(out);
  PEM_write_X509(out, certificate);
  PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(out);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

// Blocking, one connection.
class TlsClient {
 public:
  explicit TlsClient(int port) : context_(SSL_CTX_new(TLS_client_method())) {
    BIO* bio = BIO_new_ssl_connect(context_);
    BIO_set_conn_hostname(bio, strf("127.0.0.1:%d", port).c_str());
    bio_ = bio;
    connected_ = BIO_do_connect(bio) == 1 && BIO_do_handshake(bio) == 1;
    ERR_clear_error();
  }
  ~TlsClient() {
    BIO_free_all(bio_);
    SSL_CTX_free(context_);
  }
  bool connected() const { return connected_; }
  std::string name() {
    SSL* ssl = nullptr;
    BIO_get_ssl(bio_, &ssl);
    X509* peer = SSL_get1_peer_certificate(ssl);
    char text[64] = {};
    X509_NAME_get_text_by_NID(X509_get_subject_name(peer), NID_commonName, text, sizeof text);
    X509_free(peer);
    return text;
  }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const int sent = BIO_write(bio_, bytes.data(), int(bytes.size()));
      if (sent <= 0) return;
      bytes.remove_prefix(size_t(sent));
    }
  }
  // Until the server closes.
  std::string read_all() {
    std::string all;
    char piece[4096];
    for (int read; (read = BIO_read(bio_, piece, sizeof piece)) > 0;)
      all.append(piece, size_t(read));
    return all;
  }

 private:
  SSL_CTX* context_;
  BIO* bio_ = nullptr;
  bool connected_ = false;
};

class TlsTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }
  void start() {
    write_certificate(file_, "first");
    HttpOptions options{.port = 0, .tls = TlsContext::load({.certfile = file_}).value()};
    server_ = HttpServer::start(options,
                                [](Exchange exchange) {
                                  const HttpRequest& request = exchange.request();
                                  if (request.path != "/stream")
                                    return exchange.respond({.body = request.body});
                                  exchange.begin({.content_type = "text/event-stream"});
                                  for (int i = 0; i < 1000; ++i)
                                    exchange.write(strf("data: %d\n\n", i));
                                  exchange.end();
                                },
                                {})
                  .value();
  }
  const std::string file_ = ::testing::TempDir() + "/rose_tls_test.pem";
  std::unique_ptr<HttpServer> server_;
};

TEST_F(TlsTest, large_bodies_and_streams_pass) {
  start();
  const std::string body(3'000'000, 'x');
  TlsClient client(server_->port());
  ASSERT_TRUE(client.connected());
  client.send(
      strf("POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
           body.size()) +
      body);
  const std::string answer = client.read_all();
  EXPECT_NE(answer.find("HTTP/1.1 200"), std::string::npos);
  EXPECT_EQ(answer.substr(answer.size() - body.size()), body);

  TlsClient second(server_->port());
  second.send("GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_NE(second.read_all().find("data: 999\n\n"), std::string::npos);
}

TEST_F(TlsTest, new_connections_get_the_new_certificate) {
  start();
  EXPECT_EQ(TlsClient(server_->port()).name(), "first");
  write_certificate(file_, "second");
  server_->set_tls(TlsContext::load({.certfile = file_}).value());
  EXPECT_EQ(TlsClient(server_->port()).name(), "second");
}

TEST_F(TlsTest, who_speaks_plain_http_or_nonsense_is_dropped) {
  start();
  for (const char* bytes : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x01\x01nonsense"}) {
    testing::RawClient client(server_->port());
    client.send(std::string(bytes) + std::string(400, 'x'));
    EXPECT_FALSE(client.read_until("200 OK")) << "it ended";
  }
  TlsClient client(server_->port());
  EXPECT_TRUE(client.connected()) << "others are served";
}

TEST_F(TlsTest, a_client_needs_a_certificate_where_that_is_asked) {
  write_certificate(file_, "first");
  HttpOptions options{
      .port = 0,
      .tls = TlsContext::load({.certfile = file_, .ca_certs = file_, .cert_reqs = 2}).value()};
  auto server = HttpServer::start(
      options, [](Exchange exchange) { exchange.respond({.body = "secret"}); }, {});
  TlsClient client((*server)->port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(TlsTest, what_is_wrong_with_a_file_is_said) {
  const auto refusal = [](const TlsOptions& options) {
    const auto loaded = TlsContext::load(options);
    return loaded ? std::string() : loaded.error().message;
  };
  EXPECT_NE(refusal({.certfile = "/nowhere.pem"}).find("--ssl-certfile /nowhere.pem: "),
            std::string::npos);
  write_certificate(file_, "first");
  EXPECT_NE(refusal({.certfile = file_, .keyfile = "/nowhere.pem"}).find("--ssl-keyfile"),
            std::string::npos);
  EXPECT_NE(refusal({.certfile = file_, .cert_reqs = 2}).find("needs --ssl-ca-certs"),
            std::string::npos);
}

TEST_F(TlsTest, our_own_client_checks_whom_it_talks_to) {
  start();
  const auto post = [&](const char* host, std::string& answer) {
    const std::atomic<bool> stop = false;
    return http_post(
        {.url = *parse_url(strf("https://%s:%d", host, server_->port())),
         .target = "/echo",
         .bearer = "",
         .body = std::string(100'000, 'x')},
        [&](std::string_view bytes) { answer += bytes; }, stop);
  };
  std::string answer;
  const auto unknown = post("127.0.0.1", answer);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("certificate verify failed"), std::string::npos);
  answer.clear();
  ::setenv("SSL_CERT_FILE", file_.c_str(), 1);
  EXPECT_EQ(post("127.0.0.1", answer).value_or(0), 200);
  EXPECT_EQ(answer, std::string(100'000, 'x'));
  EXPECT_EQ(post("localhost", answer).value_or(0), 200);
  EXPECT_FALSE(post("127.0.0.2", answer)) << "it is not of that name";
  ::unsetenv("SSL_CERT_FILE");
}

using TlsServerTest = testing::ServerTest;

TEST_F(TlsServerTest, certificates_that_change_are_read_again) {
  const std::string file = ::testing::TempDir() + "/rose_renewed.pem";
  write_certificate(file, "first");
  ServeOptions options;
  options.tls.certfile = file;
  start(options);
  EXPECT_FALSE(server_->renew_certificates());
  EXPECT_EQ(TlsClient(port()).name(), "first");
  {
    std::FILE* broken = std::fopen(file.c_str(), "w");
    std::fclose(broken);
  }
  EXPECT_FALSE(server_->renew_certificates());
  EXPECT_EQ(TlsClient(port()).name(), "first");
  write_certificate(file, "second one");
  EXPECT_TRUE(server_->renew_certificates());
  EXPECT_EQ(TlsClient(port()).name(), "second one");
  EXPECT_FALSE(server_->renew_certificates());
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace rose
