#include "api/http.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <optional>

#include "api/test_client.h"

namespace rose {
namespace {

using testing::Answer;
using testing::RawClient;

// A server whose handler echoes: the body at /echo, facts about the request elsewhere; /hold keeps the
// exchange for the test.
class HttpTest : public ::testing::Test {
 protected:
  void start(HttpOptions options = {}) {
    options.port = 0;
    auto server = HttpServer::start(
        options, [this](Exchange exchange) { handle(std::move(exchange)); },
        [this](const HttpRecord& record) {
          const std::lock_guard lock(mutex_);
          records_.push_back(record);
        });
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }

  void handle(Exchange exchange) {
    const HttpRequest& request = exchange.request();
    if (request.path == "/hold") {
      exchange.on_close([this] {
        ++closed_;
        closed_signal_.set_value();
      });
      held_.set_value(exchange);
    } else if (request.path == "/stream") {
      exchange.begin({.content_type = "text/plain"});
      exchange.write("one ");
      exchange.write("");  // an empty chunk would end the body
      exchange.write("two");
      exchange.end();
      exchange.write("too late");
    } else if (request.path == "/pool") {
      exchange.offload([exchange] {
        exchange.post([exchange]() mutable { exchange.respond({.body = "computed"}); });
      });
    } else {
      exchange.respond({.content_type = "text/plain",
                        .body = request.method + " " + request.path + " " + request.body});
    }
  }

  int port() const { return server_->port(); }
  std::vector<HttpRecord> records() {
    const std::lock_guard lock(mutex_);
    return records_;
  }

  std::promise<Exchange> held_;
  std::promise<void> closed_signal_;
  std::atomic<int> closed_ = 0;
  std::mutex mutex_;
  std::vector<HttpRecord> records_;
  std::unique_ptr<HttpServer> server_;
};

constexpr const char* kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_F(HttpTest, a_request_in_any_pieces_is_the_same_request) {
  start();
  const std::string request =
      "POST /echo?q=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world";
  for (size_t piece : {size_t(1), size_t(7), request.size()}) {
    RawClient client(port());
    for (size_t at = 0; at < request.size(); at += piece) client.send(request.substr(at, piece));
    const Answer answer = client.read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "POST /echo hello world");
  }
}

TEST_F(HttpTest, a_chunked_body_is_joined) {
  start();
  RawClient client(port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("5\r\nhello\r\n1;ext=1\r\n!\r\n");
  client.send("0\r\n\r\n");
  EXPECT_EQ(client.read().body, "POST /echo hello!");
}

TEST_F(HttpTest, connections_are_kept_and_pipelined_requests_answered_in_order) {
  start();
  RawClient client(port());
  std::string many;
  for (int i = 0; i < 500; ++i) many += strf("GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i);
  client.send(many);
  for (int i = 0; i < 500; ++i) ASSERT_EQ(client.read().body, strf("GET /%d ", i));
  EXPECT_EQ(client.get("/last").header("Connection"), "keep-alive");
}

TEST_F(HttpTest, the_next_request_waits_until_the_answer_before_it_has_ended) {
  start();
  RawClient client(port());
  client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(kGet));
  Exchange exchange = held_.get_future().get();
  exchange.post([exchange]() mutable { exchange.respond({.body = "first"}); });
  EXPECT_EQ(client.read().body, "first");
  EXPECT_EQ(client.read().body, "GET /a ");
}

TEST_F(HttpTest, connection_close_and_http_1_0_are_honoured) {
  start();
  RawClient closing(port());
  Answer answer = closing.get("/a", "Connection: close\r\n");
  EXPECT_EQ(answer.header("Connection"), "close");
  EXPECT_TRUE(closing.at_end());

  RawClient old(port());
  old.send("GET /stream HTTP/1.0\r\n\r\n");
  answer = old.read_head();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("Transfer-Encoding"), "");
  std::string body;
  EXPECT_TRUE(old.read_until("one two", &body));
  EXPECT_TRUE(old.at_end());
}

TEST_F(HttpTest, head_has_the_length_and_no_body) {
  start();
  RawClient client(port());
  client.send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n");
  const Answer answer = client.read(true);
  EXPECT_EQ(answer.header("Content-Length"), "8");
  EXPECT_EQ(client.get("/b").body, "GET /b ");
}

TEST_F(HttpTest, a_stream_comes_in_chunks_and_ends) {
  start();
  RawClient client(port());
  const Answer answer = client.get("/stream");
  EXPECT_EQ(answer.header("Transfer-Encoding"), "chunked");
  EXPECT_EQ(answer.body, "one two");
  EXPECT_EQ(client.get("/a").body, "GET /a ");
}

TEST_F(HttpTest, work_goes_to_the_pool_and_back) {
  start();
  RawClient client(port());
  EXPECT_EQ(client.get("/pool").body, "computed");
}

TEST_F(HttpTest, expect_100_continue_is_answered_before_the_body) {
  start();
  RawClient client(port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send("ok");
  EXPECT_EQ(client.read().body, "POST /echo ok");
}

struct Malformed {
  const char* name;
  std::string bytes;
  int status;
};

TEST_F(HttpTest, what_is_no_request_gets_its_status_and_the_connection_ends) {
  start({.max_body_bytes = 1000, .max_header_bytes = 2000});
  const std::string long_header = "GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(5000, 'a');
  std::string many_headers;
  for (int i = 0; i < 20000; ++i) many_headers += "A: b\r\n";
  const Malformed cases[] = {
      {"noise", "\x16\x03\x01\x02\r\n\r\n", 400},
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"bad version", "GET / HTTP/3.7\r\nHost: x\r\n\r\n", 400},
      {"bad percent", "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"negative length", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", 400},
      {"two lengths",
       "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"length and chunks",
       "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: "
       "chunked\r\n\r\n0\r\n\r\n",
       400},
      {"bad chunk", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
       400},
      {"long header", long_header, 431},
      {"many headers", "GET / HTTP/1.1\r\nHost: x\r\n" + many_headers, 431},
      {"long body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", 413},
      {"huge body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999\r\n\r\n", 413},
      {"long chunks",
       "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
           std::string(2000, 'a') + "\r\n",
       413},
      {"expectation", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: wonder\r\n\r\n",
       417},
  };
  for (const Malformed& bad : cases) {
    SCOPED_TRACE(bad.name);
    RawClient client(port());
    client.send(bad.bytes);
    const Answer answer = client.read();
    EXPECT_EQ(answer.status, bad.status);
    EXPECT_TRUE(answer.body.starts_with(R"({"error":{"message":")")) << answer.body;
    EXPECT_EQ(answer.header("Connection"), "close");
    EXPECT_TRUE(client.at_end());
  }
  EXPECT_EQ(RawClient(port()).get("/a").status, 200);
}

TEST_F(HttpTest, the_clients_request_id_comes_back_and_cannot_break_the_header) {
  start();
  RawClient client(port());
  EXPECT_EQ(client.get("/a", "X-Request-Id: abc-1\r\n").header("X-Request-Id"), "abc-1");
  EXPECT_EQ(client.get("/a", "X-Request-Id: a b\r\n").header("X-Request-Id").size(), 32u);
  EXPECT_EQ(client.get("/a").header("X-Request-Id").size(), 32u);
}

TEST_F(HttpTest, a_client_that_leaves_is_noticed_while_its_answer_is_made) {
  start();
  {
    RawClient client(port());
    client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    Exchange exchange = held_.get_future().get();
  }
  closed_signal_.get_future().get();
  server_->stop();
  EXPECT_EQ(closed_, 1);
  ASSERT_EQ(records().size(), 1u);
  EXPECT_EQ(records()[0].status, 499);
}

TEST_F(HttpTest, a_reader_that_lags_too_far_is_dropped) {
  start({.max_unsent_bytes = 100'000});
  RawClient client(port(), 4096);
  client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Exchange exchange = held_.get_future().get();
  exchange.post([exchange]() mutable { exchange.begin({}); });
  // The system's buffers take some megabytes before ours fills; it must close long before 1 GB.
  std::atomic<bool> open = true;
  for (int i = 0; i < 16384 && open; ++i) {
    std::promise<void> written;
    exchange.post([&, exchange]() mutable {
      exchange.write(std::string(64 << 10, 'x'));
      open = exchange.open();
      written.set_value();
    });
    written.get_future().get();
  }
  EXPECT_FALSE(open);
  closed_signal_.get_future().get();
}

TEST_F(HttpTest, a_stream_without_news_sends_comments) {
  using std::chrono::milliseconds;
  start({.comment_interval = milliseconds(20), .sweep_interval = milliseconds(5)});
  RawClient client(port());
  client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Exchange exchange = held_.get_future().get();
  exchange.post([exchange]() mutable { exchange.begin({.content_type = "text/event-stream"}); });
  EXPECT_TRUE(client.read_until(": keep-alive\n\n"));
  EXPECT_TRUE(client.read_until(": keep-alive\n\n"));
}

TEST_F(HttpTest, what_does_not_arrive_in_time_is_closed) {
  using std::chrono::milliseconds;
  start({.header_timeout = milliseconds(30),
         .body_timeout = milliseconds(30),
         .idle_timeout = milliseconds(30),
         .sweep_interval = milliseconds(5)});
  RawClient idle(port()), header(port()), body(port());
  header.send("GET / HT");
  body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
  EXPECT_TRUE(idle.at_end());
  EXPECT_EQ(header.read().status, 408);
  EXPECT_EQ(body.read().status, 408);
  EXPECT_TRUE(body.at_end());
}

TEST_F(HttpTest, draining_lets_answers_end_and_takes_no_more) {
  start();
  RawClient idle(port()), busy(port());
  EXPECT_EQ(idle.get("/a").status, 200);
  busy.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Exchange exchange = held_.get_future().get();

  EXPECT_FALSE(server_->drain(std::chrono::milliseconds(1)));  // one is still at work
  EXPECT_TRUE(idle.at_end());
  exchange.post([exchange]() mutable { exchange.respond({.body = "done"}); });
  const Answer answer = busy.read();
  EXPECT_EQ(answer.body, "done");
  EXPECT_EQ(answer.header("Connection"), "close");
  busy.close();
  EXPECT_TRUE(server_->drain(std::chrono::seconds(20)));
  RawClient late(port());
  EXPECT_TRUE(!late.connected() || late.get("/a").status == 0);
}

TEST_F(HttpTest, a_port_that_is_taken_is_named) {
  start();
  const auto second = HttpServer::start(
      {.port = port()}, [](Exchange) {}, nullptr);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("is in use"), std::string::npos) << second.error().message;
  EXPECT_FALSE(HttpServer::start(
      {.host = "no such host"}, [](Exchange) {}, nullptr));
}

TEST_F(HttpTest, all_requests_together_are_bounded) {
  start({.max_body_bytes = 100'000});
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
  const auto whole = [&] {
    RawClient client(port());
    client.send(head + std::string(100'000, 'x'));
    return client.read().status;
  };
  std::vector<std::unique_ptr<RawClient>> clients;
  do {  // 90,000 bytes each, and they wait for the rest
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->send(head + std::string(90'000, 'x'));
  } while (whole() != 503);
  EXPECT_GE(clients.size(), 32u);
  clients.front()->send(std::string(10'000, 'x'));
  EXPECT_EQ(clients.front()->read().body.size(), 100'000 + std::string("POST /echo ").size());
  clients.clear();
  while (whole() != 200) {  // their ends are noticed one after the other
  }
}

}  // namespace
}  // namespace rose
