// What others see of the server: metrics and the dashboard over them, the request log, spans, timing.
#include <filesystem>
#include <fstream>
#include <mutex>
#include <regex>
#include <set>
#include <sstream>

#include "api/http.h"
#include "api/request_report.h"
#include "api/server_fixture.h"
#include "api/startup.h"
#include "base/file.h"

namespace rose {
namespace {

using testing::Answer;
using testing::RawClient;

class ObservabilityTest : public testing::ServerTest {
 protected:
  void TearDown() override {
    ServerTest::TearDown();
    std::filesystem::remove(log_);
  }
  const std::string log_ = ::testing::TempDir() + "/rose_request_log.jsonl";
};

TEST_F(ObservabilityTest, every_panel_of_the_dashboard_has_its_metric) {
  ServeOptions options;
  options.keys.api_key = {"k"};
  start(options);
  const std::string key = "Authorization: Bearer k\r\n";
  EXPECT_EQ(post(chat("\"wonder\":1"), key).status, 200);
  server_->startup().progress("weights", 1);
  const std::string text = RawClient(port()).get("/metrics", key).body;
  const Json dashboard =
      parse_json(read_file(ROSE_SOURCE_DIR "/tools/grafana/rose.json").value()).value();
  std::set<std::string> names;
  const std::regex name("(vllm:|rose:|http_|process_)[a-z0-9_]+");
  for (const Json& panel : dashboard["panels"])
    for (const Json& target : panel.value("targets", Json::array())) {
      const std::string expr = target["expr"];
      for (std::sregex_iterator it(expr.begin(), expr.end(), name), end; it != end; ++it)
        names.insert(it->str());
    }
  EXPECT_GT(names.size(), 30u);
  for (const std::string& one : names)
    EXPECT_TRUE(text.find("\n" + one + "{") != text.npos ||
                text.find("\n" + one + " ") != text.npos)
        << one;
}

TEST_F(ObservabilityTest, all_names_that_others_ask_for_are_there) {
  start();
  EXPECT_EQ(post(chat()).status, 200);
  const std::string text = metrics();
  for (const char* one :
       {"vllm:request_queue_time_seconds_count", "vllm:request_prefill_time_seconds_count",
        "vllm:request_inference_time_seconds_count", "vllm:request_decode_time_seconds_count",
        "vllm:iteration_tokens_total_bucket", "vllm:cache_config_info", "vllm:lora_requests_info",
        "http_request_duration_highr_seconds_bucket", "http_request_size_bytes_sum",
        "http_response_size_bytes_count", "process_start_time_seconds", "rose:queue_tokens",
        "rose:saturation", "rose:ready"})
    EXPECT_NE(text.find(std::string("\n") + one), std::string::npos) << one;
  EXPECT_NE(text.find("block_size=\"64\""), std::string::npos);
  // One TYPE a family: what scrapers insist on.
  std::set<std::string> types;
  for (size_t at = 0; (at = text.find("# TYPE ", at)) != text.npos; at += 7) {
    const std::string family = text.substr(at + 7, text.find(' ', at + 7) - at - 7);
    EXPECT_TRUE(types.insert(family).second) << family;
  }
}

TEST_F(ObservabilityTest, names_of_other_servers_are_there_if_asked_for) {
  start();
  EXPECT_EQ(metrics().find("sglang:"), std::string::npos);
  server_.reset();
  ServeOptions options;
  options.metrics_compat = {"sglang,llamacpp"};
  start(options);
  complete();
  const std::string text = metrics();
  for (const char* one :
       {"sglang:num_running_reqs{", "sglang:token_usage{", "sglang:cache_config_info{",
        "llamacpp:requests_deferred{", "# TYPE llamacpp:tokens_predicted_total counter"})
    EXPECT_NE(text.find(std::string("\n") + one), std::string::npos) << one;
  EXPECT_EQ(text.find("trtllm_"), std::string::npos);
  options.metrics_compat = {"tgi"};
  const auto refused = Server::listen(options, "0");
  EXPECT_EQ(refused.error().message,
            "--metrics-compat: 'tgi', wanted some of sglang, trtllm, llamacpp");
}

TEST_F(ObservabilityTest, each_finished_request_is_a_line_without_its_content) {
  ServeOptions options;
  options.request_log = log_;
  start(options);
  EXPECT_EQ(post(chat("\"max_tokens\":50,\"temperature\":0.5"), "X-Request-Id: mine\r\n").status,
            200);
  engine_.busy = true;
  EXPECT_EQ(post(chat()).status, 429);
  std::istringstream lines(read_file(log_).value());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const Json json = parse_json(line).value();
  EXPECT_EQ(json["id"], "mine");
  EXPECT_EQ(json["outcome"], "stop");
  EXPECT_EQ(json["path"], "/v1/chat/completions");
  EXPECT_EQ(json["max_tokens"], 50);
  EXPECT_EQ(json["temperature"], 0.5);
  EXPECT_GT(json["prompt_tokens"].get<int>(), 0);
  EXPECT_GT(json["completion_tokens"].get<int>(), 0);
  EXPECT_GE(json["total_ms"].get<double>(), json["first_token_ms"].get<double>());
  EXPECT_EQ(line.find("Hello"), std::string::npos);
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(parse_json(line).value()["outcome"], "rejected");
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(ObservabilityTest, answers_tell_where_their_time_went) {
  start();
  const Answer answer = post(chat());
  const std::string head = answer.head;
  for (const char* part :
       {"prepare;dur=", "queue;dur=", "prefill;dur=", "decode;dur=", "total;dur="})
    EXPECT_NE(head.find(part), std::string::npos) << part;
  EXPECT_FALSE(answer.header("openai-processing-ms").empty());
  EXPECT_NE(post(chat("\"stream\":true")).header("Server-Timing").find("prepare;dur="),
            std::string::npos);
}

TEST_F(ObservabilityTest, spans_go_to_a_collector_under_the_clients_trace) {
  std::mutex mutex;
  std::vector<Json> received;
  auto collector =
      HttpServer::start({.port = 0},
                        [&](Exchange exchange) {
                          const std::lock_guard lock(mutex);
                          EXPECT_EQ(exchange.request().path, "/v1/traces");
                          received.push_back(parse_json(exchange.request().body).value());
                          exchange.respond({.body = "{}"});
                        },
                        {})
          .value();
  ServeOptions options;
  options.otlp_traces_endpoint = strf("http://127.0.0.1:%d", collector->port());
  start(options);
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736", parent = "00f067aa0ba902b7";
  const Answer answer = post(chat(), "traceparent: 00-" + trace + "-" + parent + "-01\r\n");
  EXPECT_TRUE(answer.header("traceparent").starts_with("00-" + trace + "-"));
  EXPECT_EQ(
      post(chat(), "traceparent: 00-" + trace + "-" + parent + "-00\r\n").header("traceparent"), "")
      << "the client does not want it";
  EXPECT_EQ(post(chat()).status, 200);
  server_.reset();  // sends what is left
  collector->stop();
  std::vector<Json> spans;
  for (const Json& batch : received)
    for (const Json& span : batch["resourceSpans"][0]["scopeSpans"][0]["spans"])
      spans.push_back(span);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0]["traceId"], trace);
  EXPECT_EQ(spans[0]["parentSpanId"], parent);
  EXPECT_EQ(spans[0]["name"], "llm_request");
  EXPECT_NE(spans[1]["traceId"], trace);
  EXPECT_FALSE(spans[1].contains("parentSpanId"));
  const std::string attributes = dump_json(spans[0]["attributes"]);
  EXPECT_NE(attributes.find("gen_ai.usage.completion_tokens"), std::string::npos);
  EXPECT_NE(attributes.find("\"stop\""), std::string::npos);
  EXPECT_EQ(attributes.find("Hello"), std::string::npos);
  EXPECT_EQ(received[0]["resourceSpans"][0]["resource"]["attributes"][0]["key"], "service.name");
}

TEST_F(ObservabilityTest, a_collector_that_is_gone_costs_nothing_but_spans) {
  int port = 0;
  {
    port = HttpServer::start({.port = 0}, [](Exchange) {}, {}).value()->port();
  }
  ServeOptions options;
  options.otlp_traces_endpoint = strf("http://127.0.0.1:%d/v1/traces", port);
  start(options);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(post(chat()).status, 200);
}

TEST(BeginTrace, only_a_well_formed_parent_counts) {
  for (const char* wrong : {"", "00-", "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                            "00-4bf92f3577b34da6a3ce929d0e0e473X-00f067aa0ba902b7-01"}) {
    RequestOutcome outcome;
    begin_trace(wrong, outcome);
    EXPECT_EQ(outcome.trace_id.size(), 32u) << wrong;
    EXPECT_EQ(outcome.span_id.size(), 16u);
    EXPECT_TRUE(outcome.parent_span.empty());
  }
}

}  // namespace
}  // namespace rose
