// Load and hostile clients, small: tests/load has the full run.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "api/server_fixture.h"
#include "cli/load_client.h"
#include "cli/mock_server.h"

namespace rose {
namespace {

using testing::Answer;
using testing::RawClient;

class LoadTest : public testing::MockServer {
 protected:
  void start() {
    ModelOptions options = testing::mock_options(0);
    options.max_model_len = 4096;
    options.mock.answer_tokens = 3000;
    MockServer::start(options);
  }
  LoadPlan plan(int requests, int concurrency, int tokens) const {
    return {.url = parse_url(server_->url()).value(),
            .target = "/v1/chat/completions",
            .body = R"({"stream":true,"ignore_eos":true,"stream_options":{"include_usage":true,
                "continuous_usage_stats":true},"messages":[{"role":"user","content":"Hi"}],
                "max_tokens":)" +
                    std::to_string(tokens) + "}",
            .requests = requests,
            .concurrency = concurrency,
            .timeout_s = 120};
  }
  static std::string chat(const std::string& fields) {
    return R"({"messages":[{"role":"user","content":"Hi"}],)" + fields + "}";
  }
};

TEST_F(LoadTest, many_streams_lose_nothing) {
  start();
  const auto result = run_load(plan(300, 100, 40));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->failures.empty()) << result->failures.begin()->first;
  ASSERT_EQ(result->streams.size(), 300u);
  for (const StreamRecord& stream : result->streams) {
    EXPECT_EQ(stream.tokens, 40);
    EXPECT_EQ(stream.lost, 0);
    EXPECT_EQ(stream.events, 40 - 3) << "all but the header's three tokens";
  }
  const EngineStats stats = session_->engine->stats();
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_EQ(stats.pages_free[0] + stats.pages_cached[0], stats.pages[0]);
}

TEST_F(LoadTest, what_the_load_client_cannot_reach_is_counted) {
  start();
  LoadPlan wrong = plan(20, 5, 10);
  wrong.target = "/nowhere";
  EXPECT_EQ(run_load(wrong)->failures.at("status 404"), 20);
  server_.reset();
  EXPECT_EQ(run_load(wrong)->failures.size(), 1u);
}

// Answers are still being made for others while each of these is at work.
TEST_F(LoadTest, hostile_clients_do_not_keep_others_from_their_answers) {
  start();
  std::atomic<bool> done = false;
  std::atomic<int> answered = 0;
  std::thread others([&] {
    while (!done || answered < 3) {
      EXPECT_EQ(RawClient(port()).post("/v1/chat/completions", chat("\"max_tokens\":4")).status,
                200);
      ++answered;
    }
  });
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 20; ++i) {  // leave in the middle
      RawClient client(port());
      client.send_post("/v1/chat/completions", chat(R"("stream":true,"max_tokens":2000)"));
      EXPECT_TRUE(client.read_until("assistant"));
    }
    for (int i = 0; i < 5; ++i) {  // read nothing: a megabyte waits, then they are dropped
      clients.push_back(std::make_unique<RawClient>(port(), 4096));
      clients.back()->send_post("/v1/chat/completions",
                                chat(R"("stream":true,"n":8,"max_tokens":3000,"ignore_eos":true)"));
    }
    for (int i = 0; i < 50; ++i) {  // never finish their header
      clients.push_back(std::make_unique<RawClient>(port()));
      clients.back()->send("POST /v1/chat/completions HTTP/1.1\r\nHo");
    }
    RawClient large(port());
    large.send(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nx");
    EXPECT_EQ(large.read().status, 413);
    EXPECT_EQ(RawClient(port()).post("/v1/chat/completions", std::string(1'000'000, '[')).status,
              400);
    EXPECT_EQ(RawClient(port()).post("/v1/chat/completions", chat("\"n\":16384")).status, 400);
    RawClient nonsense(port());
    nonsense.send(std::string(1000, '\x7f'));
    EXPECT_EQ(nonsense.read().status, 400);
  }
  done = true;
  others.join();
  server_->drain(60);
  const EngineStats stats = session_->engine->stats();
  EXPECT_EQ(stats.running + stats.waiting, 0) << "all who left are cancelled";
}

}  // namespace
}  // namespace rose
