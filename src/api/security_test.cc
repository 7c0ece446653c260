// Who may call what, and how much: keys, scopes, limits, origins, deadlines, the admin listener.
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "api/http.h"
#include "api/server_fixture.h"
#include "base/sha256.h"

namespace rose {
namespace {

using testing::Answer;
using testing::demo_tokenizer;
using testing::events;
using testing::RawClient;

class SecurityTest : public testing::ServerTest {
 protected:
  void TearDown() override {
    ServerTest::TearDown();
    std::filesystem::remove(file_);
  }
  static std::string bearer(const std::string& key) {
    return "Authorization: Bearer " + key + "\r\n";
  }
  static std::string entry(const std::string& name, const std::string& more = "") {
    return strf(R"({"name":"%s","sha256":"%s"%s})", name.c_str(), sha256_hex(name).c_str(),
                more.c_str());
  }
  ServeOptions with_keys(const std::string& entries) {
    write_keys(entries);
    ServeOptions options;
    options.keys.file = file_;
    return options;
  }
  void write_keys(const std::string& entries) {
    std::ofstream(file_) << "{\"keys\":[" << entries << "]}";
  }
  static std::string code(const Answer& answer) {
    const auto json = parse_json(answer.body);
    return json ? (*json)["error"]["code"].dump() : "no JSON: " + answer.body;
  }
  const std::string file_ = ::testing::TempDir() + "/rose_security_test.json";
};

TEST_F(SecurityTest, every_route_but_health_live_needs_a_key_of_its_scope) {
  ServeOptions options =
      with_keys(entry("user") + "," + entry("watch", R"(,"scopes":["metrics"])"));
  options.admin_port = 0;
  start(options);
  struct Case {
    const char* method;
    const char* path;
    int user, watch;  // status
  };
  const Case cases[] = {
      {"GET", "/v1/models", 200, 403},  {"GET", "/v1/models/demo", 200, 403},
      {"GET", "/health", 200, 200},     {"GET", "/health/ready", 200, 200},
      {"GET", "/ping", 200, 200},       {"GET", "/version", 200, 200},
      {"GET", "/load", 200, 200},       {"GET", "/metrics", 403, 200},
      {"GET", "/admin/keys", 404, 404}, {"GET", "/nowhere", 404, 404},
      {"POST", "/v1/models", 405, 405}, {"DELETE", "/metrics", 405, 405},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.path);
    const auto status = [&](const std::string& headers) {
      RawClient client(port());
      client.send(strf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n", one.method, one.path) +
                  headers + "\r\n");
      return client.read().status;
    };
    EXPECT_EQ(status(""), 401);
    EXPECT_EQ(status(bearer("wrong")), 401);
    EXPECT_EQ(status(bearer(sha256_hex("user"))), 401) << "the hash is not the key";
    EXPECT_EQ(status(bearer("user")), one.user);
    EXPECT_EQ(status("x-api-key: watch\r\n"), one.watch);
  }
  EXPECT_EQ(RawClient(port()).get("/health/live").status, 200);
  EXPECT_EQ(post(chat()).status, 401);
  EXPECT_EQ(post(chat(), bearer("watch")).status, 403);
  EXPECT_EQ(post(chat(), bearer("user")).status, 200);
  EXPECT_EQ(engine_.requests().size(), 1u);
  EXPECT_EQ(RawClient(port()).get("/", "Accept: text/html\r\n").header("WWW-Authenticate"),
            "Basic realm=\"rose\"");
}

TEST_F(SecurityTest, the_admin_listener_has_its_own_routes_and_reloads_keys) {
  ServeOptions options = with_keys(entry("user") + "," + entry("root", R"(,"scopes":["admin"])"));
  options.port = 0;
  int taken = 0;
  {  // a port that is free now
    auto probe = HttpServer::start({.port = 0}, [](Exchange) {}, {}).value();
    taken = probe->port();
  }
  options.admin_port = taken;
  start(options);
  ASSERT_EQ(server_->admin_port(), taken);
  RawClient admin(taken);
  EXPECT_EQ(admin.get("/v1/models", bearer("user")).status, 404) << "nothing of the model";
  EXPECT_EQ(admin.get("/metrics", bearer("root")).status, 200);
  EXPECT_EQ(admin.get("/health/live").status, 200);
  EXPECT_EQ(admin.get("/admin/keys").status, 401);
  EXPECT_EQ(admin.get("/admin/keys", bearer("user")).status, 403);
  EXPECT_EQ(post(chat(), bearer("user")).status, 200);
  const Json keys = parse_json(admin.get("/admin/keys", bearer("root")).body).value()["keys"];
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[1]["name"], "user");
  EXPECT_EQ(keys[1]["requests"], 1);
  EXPECT_GT(keys[1]["generated_tokens"].get<int>(), 0);

  write_keys(entry("newcomer") + "," + entry("root", R"(,"scopes":["admin"])"));
  EXPECT_EQ(post(chat(), bearer("newcomer")).status, 401);
  EXPECT_EQ(admin.post("/admin/reload", "", bearer("root")).status, 200);
  EXPECT_EQ(post(chat(), bearer("newcomer")).status, 200);
  EXPECT_EQ(post(chat(), bearer("user")).status, 401);
  std::ofstream(file_) << "{";
  const Answer broken = admin.post("/admin/reload", "", bearer("root"));
  EXPECT_EQ(broken.status, 500);
  EXPECT_EQ(post(chat(), bearer("newcomer")).status, 200) << "a broken file changes nothing";
}

TEST_F(SecurityTest, sighup_reads_the_keys_again_and_sigterm_ends) {
  std::signal(SIGHUP, SIG_IGN);  // until the server has its own handler
  start(with_keys(entry("user")));
  std::thread serving([&] { server_->run_until_signal(); });
  struct sigaction action {};
  do {
    ::sigaction(SIGHUP, nullptr, &action);
  } while (action.sa_handler == SIG_IGN);
  write_keys(entry("newcomer"));
  EXPECT_EQ(post(chat(), bearer("newcomer")).status, 401);
  ::kill(::getpid(), SIGHUP);
  while (post(chat(), bearer("newcomer")).status != 200) {
  }
  EXPECT_EQ(post(chat(), bearer("user")).status, 401);
  ::kill(::getpid(), SIGTERM);
  serving.join();
  for (const int signal : {SIGHUP, SIGTERM, SIGINT}) std::signal(signal, SIG_DFL);
}

TEST_F(SecurityTest, limits_of_a_key_are_429_with_the_time_to_wait) {
  start(with_keys(entry("few", R"(,"requests_per_minute":2)") + "," +
                  entry("short", R"(,"tokens_per_minute":20)") + "," +
                  entry("one", R"(,"concurrent":1)") + "," + entry("free")));
  EXPECT_EQ(post(chat(), bearer("few")).header("x-ratelimit-remaining-requests"), "1");
  EXPECT_EQ(post(chat(), bearer("few")).status, 200);
  Answer answer = post(chat(), bearer("few"));
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(code(answer), "\"rate_limit_exceeded\"");
  EXPECT_NEAR(std::atoi(answer.header("Retry-After").c_str()), 30, 1);

  EXPECT_EQ(post(chat(), bearer("short")).status, 200) << "a whole minute's tokens at once";
  answer = post(chat("\"stream\":true"), bearer("short"));
  EXPECT_EQ(answer.status, 429);
  EXPECT_GT(std::atoi(answer.header("Retry-After").c_str()), 60) << "the answer is paid for too";

  engine_.hold_after = 5;
  RawClient first(port());
  first.send_post("/v1/chat/completions", chat("\"stream\":true"), bearer("one"));
  EXPECT_TRUE(first.read_until("assistant"));
  EXPECT_EQ(post(chat(), bearer("one")).status, 429);
  engine_.release();
  EXPECT_TRUE(first.read_until("[DONE]"));
  EXPECT_EQ(post(chat(), bearer("one")).status, 200);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(post(chat(), bearer("free")).status, 200);
}

TEST_F(SecurityTest, the_engine_hears_what_a_key_may) {
  ServeOptions options =
      with_keys(entry("low", R"(,"priority":5,"share":3,"max_tokens":7)") + "," + entry("other"));
  options.isolate_prefix_cache = true;
  start(options);
  EXPECT_EQ(post(chat("\"priority\":-9,\"cache_salt\":\"x\""), bearer("low")).status, 200);
  EXPECT_EQ(post(chat("\"priority\":8,\"max_tokens\":3"), bearer("low")).status, 200);
  EXPECT_EQ(post(chat("\"priority\":-9,\"cache_salt\":\"x\""), bearer("other")).status, 200);
  const std::vector<Request> asked = engine_.requests();
  EXPECT_EQ(asked[0].priority, 5);
  EXPECT_EQ(asked[0].max_tokens, 7);
  EXPECT_EQ(asked[0].share, 3);
  EXPECT_EQ(asked[1].priority, 8);
  EXPECT_EQ(asked[1].max_tokens, 3);
  EXPECT_EQ(asked[2].priority, -9);
  EXPECT_NE(asked[0].tenant, asked[2].tenant);
  EXPECT_EQ(asked[0].tenant, asked[1].tenant);
  EXPECT_NE(asked[0].cache_salt, asked[2].cache_salt);
  EXPECT_NE(asked[0].cache_salt, asked[1].cache_salt);
}

TEST_F(SecurityTest, other_pages_may_call_only_where_they_are_listed) {
  start();
  EXPECT_EQ(RawClient(port())
                .get("/health", "Origin: http://a\r\n")
                .header("Access-Control-Allow-Origin"),
            "");
  ServeOptions options;
  options.allowed_origins = {"http://a", "http://b"};
  server_.reset();
  start(options);
  RawClient client(port());
  EXPECT_EQ(client.get("/health", "Origin: http://b\r\n").header("Access-Control-Allow-Origin"),
            "http://b");
  EXPECT_EQ(client.get("/health", "Origin: http://c\r\n").header("Access-Control-Allow-Origin"),
            "");
  EXPECT_EQ(client.get("/nowhere", "Origin: http://a\r\n").header("Vary"), "Origin");
}

TEST_F(SecurityTest, what_is_too_much_is_refused_by_name) {
  ServeOptions options;
  options.max_messages = 3;
  options.max_tools = 1;
  options.max_choices = 4;
  start(options);
  const std::string message = R"({"role":"user","content":"x"})";
  const std::string tool = R"({"type":"function","function":{"name":"f"}})";
  std::string deep = "1";
  for (int i = 0; i < 70; ++i) deep = "[" + deep + "]";
  const std::pair<std::string, const char*> cases[] = {
      {"{\"messages\":[" + message + "," + message + "," + message + "," + message + "]}",
       "4 of them, this server takes 3"},
      {chat("\"tools\":[" + tool + "," + tool + "]"), "2 of them, this server takes 1"},
      {chat("\"n\":16384"), "16384 is not in 1..4"},
      {chat("\"metadata\":" + deep), "nested 71 deep, the limit is 64"},
      {std::string(1'000'000, '['), "nested 1000000 deep, the limit is 64"},
  };
  for (const auto& [body, expected] : cases) {
    const Answer answer = post(body);
    EXPECT_EQ(answer.status, 400);
    EXPECT_NE(answer.body.find(expected), std::string::npos) << answer.body;
  }
  EXPECT_TRUE(engine_.requests().empty());
}

TEST_F(SecurityTest, what_lasts_too_long_is_ended) {
  start();
  engine_.hold_after = 5;  // in the middle of "Hello."
  Answer answer = post(chat(), "X-Request-Timeout-Ms: 300\r\n");
  EXPECT_EQ(answer.status, 504);
  EXPECT_EQ(code(answer), "\"timeout\"");
  const auto chunks = events(post(chat("\"stream\":true"), "X-Request-Timeout-Ms: 300\r\n").body);
  EXPECT_EQ(chunks.back()["error"]["code"], "timeout");
  engine_.wait_until_idle();
  EXPECT_EQ(engine_.cancelled(), 2);

  server_.reset();
  engine_.hold_after = 0;  // not even a first token
  ServeOptions options;
  options.queue_timeout_s = 1;
  start(options);
  answer = post(chat());
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(code(answer), "\"queue_timeout\"");
  engine_.wait_until_idle();
  EXPECT_NE(metrics().find("finished_reason=\"timeout\"} 1\n"), std::string::npos);
}

TEST_F(SecurityTest, impossible_options_are_refused) {
  ServeOptions options;
  options.port = 0;
  options.max_json_depth = 0;
  EXPECT_FALSE(Server::listen(options, "0"));
  options = {};
  options.port = 0;
  options.keys.api_key = {""};
  EXPECT_FALSE(Server::listen(options, "0"));
  options = {};
  options.port = 0;
  options.tls.keyfile = "key.pem";
  EXPECT_FALSE(Server::listen(options, "0"));
}

}  // namespace
}  // namespace rose
