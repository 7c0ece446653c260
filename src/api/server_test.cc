#include "api/server.h"

#include "api/server_fixture.h"
#include "api/startup.h"

namespace rose {
namespace {

using testing::Answer;
using testing::demo_tokenizer;
using testing::events;
using testing::RawClient;
using testing::ServerTest;

TEST_F(ServerTest, health_models_and_version_answer) {
  start();
  RawClient client(port());
  for (const char* path : {"/health", "/health/live", "/ping"}) {
    const Answer answer = client.get(path);
    EXPECT_EQ(answer.status, 200) << path;
    EXPECT_EQ(answer.body, R"({"status":"ok"})");
  }
  EXPECT_EQ(client.get("/version").body, R"({"version":"0"})");

  Json models = *parse_json(client.get("/v1/models").body);
  EXPECT_EQ(models["object"], "list");
  ASSERT_EQ(models["data"].size(), 2u);
  EXPECT_EQ(models["data"][0]["id"], "demo");
  EXPECT_EQ(models["data"][0]["root"], "/models/demo");
  EXPECT_EQ(models["data"][0]["max_model_len"], 4096);
  for (const char* path : {"/v1/models/org/demo", "/v1/models/org%2Fdemo"})
    EXPECT_EQ((*parse_json(client.get(path).body))["id"], "org/demo");
  const Answer unknown = client.get("/v1/models/other");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ((*parse_json(unknown.body))["error"]["code"], "model_not_found");
}

TEST_F(ServerTest, wrong_paths_and_methods_say_so) {
  start({.allowed_origins = {"*"}});
  RawClient client(port());
  const Answer unknown = client.get("/v1/nothing");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ((*parse_json(unknown.body))["error"]["type"], "not_found_error");
  EXPECT_EQ(client.get("/v1/models/").status, 404);

  const Answer wrong = client.get("/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("Allow"), "POST");
  EXPECT_EQ(client.post("/v1/models", "{}").header("Allow"), "GET, HEAD");

  client.send("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: http://page\r\n\r\n");
  const Answer options = client.read();
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.header("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(options.header("Access-Control-Allow-Methods"), "GET, POST, DELETE, OPTIONS");

  client.send("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read(true).status, 200);
}

struct Refusal {
  std::string body;
  int status;
  const char* param;    // "": null
  const char* message;  // part of it
};

TEST_F(ServerTest, every_wrong_request_is_named) {
  start();
  const Refusal cases[] = {
      {"", 400, "", "not valid JSON"},
      {"{", 400, "", "not valid JSON"},
      {"[]", 400, "", "an array, wanted a JSON object"},
      {R"({"messages":[{"role":"user","content":"\ud800"}]})", 400, "", "not valid JSON"},
      {chat("\"temperature\":1e999"), 400, "", "not valid JSON"},
      {std::string(1000, '['), 400, "", "nested 1000 deep"},
      {"{}", 400, "messages", "is missing or empty"},
      {R"({"messages":[]})", 400, "messages", "is missing or empty"},
      {R"({"messages":"Hi"})", 400, "messages", "a string, wanted an array"},
      {R"({"messages":["Hi"]})", 400, "messages[0]", "a string, wanted an object"},
      {R"({"messages":[{"content":"Hi"}]})", 400, "messages[0].role", "is missing"},
      {R"({"messages":[{"role":"robot","content":"Hi"}]})", 400, "messages[0].role",
       "'robot' is unknown"},
      {R"({"messages":[{"role":"user"}]})", 400, "messages[0].content", "is missing"},
      {R"({"messages":[{"role":"user","content":5}]})", 400, "messages[0].content", "the number 5"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
       400, "messages[0].content[0].type", "'image_url' are not supported"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", 400,
       "messages[0].content[0].text", "is missing"},
      {R"({"messages":[{"role":"user","content":"a"},{"role":"tool","content":"4"}]})", 400,
       "messages[1].tool_call_id", "is missing"},
      {R"({"messages":[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"no","content":"4"}]})",
       400, "messages", "no"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"type":"function"}]}]})", 400,
       "messages[0].tool_calls[0].function", "is missing"},
      {R"({"model":"gpt-9","messages":[{"role":"user","content":"Hi"}]})", 404, "model",
       "the model 'gpt-9' does not exist; served here: 'demo' 'org/demo'"},
      {chat("\"temperature\":3"), 400, "temperature", "3 is not in 0..2"},
      {chat("\"temperature\":\"hot\""), 400, "temperature", "a string, wanted a number"},
      {chat("\"top_p\":-0.1"), 400, "top_p", "-0.1 is not in 0..1"},
      {chat("\"top_k\":1.5"), 400, "top_k", "wanted a whole number"},
      {chat("\"max_tokens\":0"), 400, "max_tokens", "0 is not in 1.."},
      {chat("\"max_tokens\":99999999999"), 400, "max_tokens", "99999999999 is not in 1.."},
      {chat("\"max_tokens\":5,\"min_tokens\":6"), 400, "min_tokens",
       "6 is more than max_tokens, 5"},
      {chat("\"n\":129"), 400, "n", "129 is not in 1..128"},
      {chat("\"seed\":1.5"), 400, "seed", "wanted a whole number"},
      {chat("\"stop\":\"\""), 400, "stop", "an empty string"},
      {chat("\"stop\":[1]"), 400, "stop", "has the number 1"},
      {chat("\"stop_token_ids\":[-1]"), 400, "stop_token_ids", "wanted token ids in 0.."},
      {chat("\"logit_bias\":{\"x\":1}"), 400, "logit_bias", "key 'x' is no token id"},
      {chat("\"logit_bias\":{\"5\":101}"), 400, "logit_bias", "wanted a number in -100..100"},
      {chat("\"top_logprobs\":2"), 400, "top_logprobs", "needs logprobs"},
      {chat("\"logprobs\":true,\"top_logprobs\":21"), 400, "top_logprobs", "21 is not in 0..20"},
      {chat("\"stream\":1"), 400, "stream", "wanted true or false"},
      {chat("\"stream_options\":[]"), 400, "stream_options", "an array, wanted an object"},
      {chat("\"reasoning_effort\":\"vast\""), 400, "reasoning_effort",
       "wanted low, medium or high"},
      {chat("\"response_format\":{\"type\":\"yaml\"}"), 400, "response_format.type",
       "'yaml' is not supported, wanted text, json_object or json_schema"},
      {chat("\"tool_choice\":\"required\""), 400, "tool_choice", "'required' needs tools"},
      {chat("\"tools\":[{\"type\":\"web_search_preview\"}]"), 400, "tools[0].type",
       "unsupported tool type"},
      {chat(R"("tools":[{"type":"function","function":{"name":"a b"}}])"), 400,
       "tools[0].function.name", "wanted 1 to 64 of"},
      {chat(R"("tools":[{"type":"function","function":{"name":"<|end|>"}}])"), 400,
       "tools[0].function.name", "wanted 1 to 64 of"},
      {chat("\"functions\":[{}]"), 400, "functions", "is not supported; use tools"},
      {chat("\"audio\":{}"), 400, "audio", "is not supported"},
      {chat("\"guided_json\":{\"not\":{}}"), 400, "guided_json", "'not' is not supported"},
  };
  RawClient client(port());
  for (const Refusal& refusal : cases) {
    SCOPED_TRACE(refusal.body.substr(0, 200));
    const Answer answer = client.post("/v1/chat/completions", refusal.body);
    EXPECT_EQ(answer.status, refusal.status);
    const auto json = parse_json(answer.body);
    ASSERT_TRUE(json) << answer.body;
    Json error = (*json)["error"];
    EXPECT_NE(error["message"].get<std::string>().find(refusal.message), std::string::npos)
        << error;
    EXPECT_EQ(error["param"].is_null() ? "" : error["param"].get<std::string>(), refusal.param);
    EXPECT_TRUE(error["type"].is_string() && error.contains("code"));
  }
  EXPECT_TRUE(engine_.requests().empty());
  const std::string counted = strf("outcome=\"rejected\"} %zu\n", std::size(cases));
  EXPECT_NE(metrics().find(counted), std::string::npos);
}

TEST_F(ServerTest, what_does_not_fit_the_context_is_refused_with_both_numbers) {
  engine_.memory().max_context = 200;
  start();
  std::string words;
  for (int i = 0; i < 300; ++i) words += " word";
  Answer answer = post(R"({"messages":[{"role":"user","content":")" + words + R"("}]})");
  EXPECT_EQ(answer.status, 400);
  Json error = (*parse_json(answer.body))["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_NE(error["message"].get<std::string>().find("context is 200 tokens"), std::string::npos)
      << error;

  answer = post(chat("\"max_tokens\":199"));
  EXPECT_EQ(answer.status, 400);
  error = (*parse_json(answer.body))["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_EQ(error["param"], "max_tokens");
}

TEST_F(ServerTest, fields_that_nobody_knows_are_ignored_and_reported) {
  start();
  const Answer answer =
      post(chat(R"("wonder":1,"bad name\r\n":2,"user":"u","metadata":{"a":"b"})"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("X-Rose-Ignored-Params"), "wonder, bad name");
  const std::string text = metrics();
  EXPECT_NE(text.find("param=\"wonder\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("param=\"other\"} 1\n"), std::string::npos);
}

TEST_F(ServerTest, a_full_queue_is_429_with_retry_after) {
  start();
  engine_.busy = true;
  for (const char* fields : {"", "\"stream\":true"}) {
    const Answer answer = post(chat(fields));
    EXPECT_EQ(answer.status, 429);
    EXPECT_EQ(answer.header("Retry-After"), "1");
    EXPECT_EQ((*parse_json(answer.body))["error"]["type"], "rate_limit_error");
  }
}

TEST_F(ServerTest, a_failing_engine_is_500_or_an_error_event) {
  start();
  engine_.ending = Finish::failed;
  EXPECT_EQ(post(chat()).status, 500);
  const auto chunks = events(post(chat("\"stream\":true")).body);
  EXPECT_EQ(chunks.back()["error"]["type"], "server_error");
}

TEST_F(ServerTest, a_client_that_leaves_cancels_its_request) {
  start();
  engine_.hold_after = 5;  // in the middle of "Hello."
  int left = 0;
  for (const char* fields : {"\"stream\":true", "\"stream\":false", "\"n\":3"}) {
    {
      RawClient client(port());
      client.send_post("/v1/chat/completions", chat(fields));
      while (engine_.requests().size() < size_t(left + 1)) std::this_thread::yield();
      if (left == 0) {
        EXPECT_TRUE(client.read_until("assistant"));  // it had begun to speak
      }
    }
    engine_.wait_until_idle();  // only a cancel ends it
    EXPECT_EQ(engine_.cancelled(), ++left);
  }
  EXPECT_NE(metrics().find("finished_reason=\"abort\"} 3\n"), std::string::npos);
}

TEST_F(ServerTest, listens_before_the_model_is_loaded) {
  ServeOptions options;
  options.port = 0;
  auto listening = Server::listen(options, "0");
  ASSERT_TRUE(listening) << listening.error().message;
  server_ = std::move(*listening);
  server_->startup().progress("weights", 0.25);
  RawClient client(port());
  EXPECT_EQ(client.get("/health/live").status, 200);
  for (const char* path : {"/health", "/health/ready", "/v1/models", "/load"}) {
    const Answer answer = client.get(path);
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_EQ(answer.header("Retry-After"), "1") << path;
    EXPECT_NE(answer.body.find("the model is being loaded: weights, 25 %"), std::string::npos)
        << answer.body;
  }
  EXPECT_EQ(client.post("/v1/chat/completions", chat()).status, 503);
  Answer startup = client.get("/health/startup");
  EXPECT_EQ(startup.status, 503);
  Json body = parse_json(startup.body).value();
  EXPECT_EQ(body["status"], "loading");
  EXPECT_EQ(body["progress"], 0.25);
  EXPECT_NE(client.get("/metrics").body.find("process_resident_memory_bytes"), std::string::npos);

  server_->serve({.names = {"demo"}, .root = "/", .version = "0"}, engine_, demo_tokenizer(),
                 *format_);
  for (const char* path : {"/health", "/health/ready", "/health/startup", "/v1/models"})
    EXPECT_EQ(client.get(path).status, 200) << path;
  EXPECT_EQ(client.post("/v1/chat/completions", chat()).status, 200);
  body = parse_json(client.get("/load").body).value();
  EXPECT_EQ(body["waiting"], 0);
  EXPECT_TRUE(body["kv_cache_usage"].is_number());
}

TEST_F(ServerTest, shutting_down_lets_answers_end) {
  start();
  engine_.hold_after = 5;  // in the middle of "Hello."
  RawClient client(port());
  client.send_post("/v1/chat/completions", chat());
  while (engine_.requests().empty()) std::this_thread::yield();
  std::thread drain([&] { server_->drain(20); });
  engine_.release();
  const Answer answer = client.read();
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("Hello."), std::string::npos);
  client.close();
  drain.join();
}

TEST_F(ServerTest, shutting_down_cancels_what_does_not_end) {
  start();
  engine_.hold_after = 5;  // in the middle of "Hello."
  RawClient client(port());
  client.send_post("/v1/chat/completions", chat("\"stream\":true"));
  EXPECT_TRUE(client.read_until("assistant"));
  server_.reset();
  engine_.wait_until_idle();
  EXPECT_EQ(engine_.cancelled(), 1);
}

TEST_F(ServerTest, metrics_count_what_happened) {
  start();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(post(chat("\"max_tokens\":50")).status, 200);
  EXPECT_EQ(post(chat("\"max_tokens\":2")).status, 200);
  const std::string text = metrics();
  const std::string labels = R"({engine="0",model_name="demo")";
  const int tokens = int(engine_.script({}, 0).size());
  for (const std::string& line : {
           "vllm:request_success_total" + labels + R"(,finished_reason="stop"} 3)",
           "vllm:request_success_total" + labels + R"(,finished_reason="length"} 1)",
           "vllm:time_to_first_token_seconds_count" + labels + "} 4",
           "vllm:e2e_request_latency_seconds_count" + labels + "} 4",
           "vllm:inter_token_latency_seconds_count" + labels + strf("} %d", 3 * (tokens - 1) + 1),
           "vllm:request_params_max_tokens_sum" + labels + "} 152",
           std::string("http_requests_total") +
               R"({handler="/v1/chat/completions",method="POST",status="2xx"} 4)",
       })
    EXPECT_NE(text.find(line + "\n"), std::string::npos) << line << "\n" << text;
  for (const char* name :
       {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc", "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
        "vllm:num_preemptions_total", "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total", "vllm:time_per_output_token_seconds_bucket",
        "process_resident_memory_bytes"})
    EXPECT_NE(text.find(std::string("\n") + name), std::string::npos) << name;
}

}  // namespace
}  // namespace rose
