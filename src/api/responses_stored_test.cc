// Responses that are kept: fetched, gone on from, made in the background.
#include <filesystem>

#include "api/responses_fixture.h"

namespace rose {
namespace {

using testing::Answer;
using testing::assembled;
using testing::kResponseTools;
using testing::kThink;
using testing::kThinkTwiceCall;
using testing::named_events;
using testing::RawClient;
using testing::ResponsesTest;

TEST_F(ResponsesTest, an_item_can_be_sent_by_its_id) {
  start();
  say(kThink);
  const Json first = respond(R"({"input":[{"role":"user","content":"A","id":"mine"}]})");
  const std::string answer = first["output"][1]["id"];
  const Json second = respond(R"({"input":[{"type":"item_reference","id":"mine"},{"id":")" +
                              answer + R"("},{"role":"user","content":"B"}]})");
  EXPECT_TRUE(
      last_prompt().ends_with("<|start|>user<|message|>A<|end|><|start|>assistant<|channel|>final<|"
                              "message|>It is 4, café.<|end|>"
                              "<|start|>user<|message|>B<|end|><|start|>assistant"))
      << last_prompt();
  const Json items = get(second["id"].get<std::string>() + "/input_items?order=asc");
  EXPECT_EQ(items["data"][1], first["output"][1]);
  const Answer lost = send(R"({"input":[{"type":"item_reference","id":"rs_x"}]})");
  EXPECT_EQ(lost.status, 404);
  EXPECT_EQ((*parse_json(lost.body))["error"]["param"], "input[0].id");
  for (const char* wrong :
       {R"({"type":"item_reference","id":5})", R"({"type":"item_reference"})"}) {
    const Answer refused = send(std::string(R"({"input":[)") + wrong + "]}");
    EXPECT_EQ(refused.status, 400) << refused.body;
    EXPECT_EQ((*parse_json(refused.body))["error"]["param"], "input[0].id");
  }
}

TEST_F(ResponsesTest, a_background_stream_can_be_taken_up_again) {
  start();
  say(kThink);
  engine_.hold_after = 8;
  RawClient leaving(port());
  leaving.send_post("/v1/responses", ask(R"("background":true,"stream":true)"));
  std::string begun;
  ASSERT_TRUE(leaving.read_until("reasoning_text.delta", &begun));
  leaving.close();
  const std::string id = begun.substr(begun.find("resp_"), 37);

  RawClient back(port());
  back.send("GET /v1/responses/" + id +
            "?stream=true&starting_after=1 HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(back.read_until("reasoning_text.delta"));  // before the end
  engine_.release();
  ended(id);
  const auto all = named_events(call("GET", id + "?stream=true").body);
  EXPECT_EQ(all.back()["type"], "response.completed");
  EXPECT_EQ(all.back()["response"], get(id));
  EXPECT_EQ(assembled(all), get(id)["output"]);
  std::string rest;
  ASSERT_TRUE(back.read_until("0\r\n\r\n", &rest));
  EXPECT_NE(rest.find("response.completed"), std::string::npos);
  const std::string last =
      call("GET", id + "?stream=true&starting_after=" + std::to_string(all.size() - 2)).body;
  EXPECT_TRUE(last.starts_with("event: response.completed\n")) << last;
  EXPECT_EQ(call("GET", id + "?stream=true&starting_after=x").status, 400);
  EXPECT_EQ(call("GET", "resp_x?stream=true").status, 404);
  EXPECT_EQ(call("GET", respond(ask())["id"].get<std::string>() + "?stream=true").status, 400);
  EXPECT_EQ(call("DELETE", id).status, 200);
  EXPECT_EQ(call("GET", id + "?stream=true").status, 404);
}

TEST_F(ResponsesTest, a_background_response_has_its_time_too) {
  start();
  say(kThink);
  engine_.hold_after = 3;
  const Answer begun = RawClient(port()).post("/v1/responses", ask("\"background\":true"),
                                              "X-Request-Timeout-Ms: 1\r\n");
  const std::string id = (*parse_json(begun.body))["id"];
  EXPECT_EQ(ended(id)["status"], "failed");
  EXPECT_NE(get(id)["error"]["message"].get<std::string>().find("not complete after"),
            std::string::npos);
  EXPECT_EQ(engine_.cancelled(), 1);
}

TEST_F(ResponsesTest, a_conversation_goes_on_from_a_stored_response) {
  start();
  say(kThinkTwiceCall);
  const Json first = respond(ask(R"("instructions":"OLD RULE",)" + std::string(kResponseTools)));
  say(kThink);
  const Json second =
      respond(R"({"previous_response_id":")" + first["id"].get<std::string>() +
              R"(","instructions":"NEW RULE","input":[{"type":"function_call_output","call_id":")" +
              first["output"][3]["call_id"].get<std::string>() +
              R"(","output":[{"type":"input_text","text":"4 C"}]}]})");
  EXPECT_EQ(second["previous_response_id"], first["id"]);
  std::string prompt = last_prompt();
  EXPECT_NE(prompt.find("NEW RULE"), std::string::npos);
  EXPECT_EQ(prompt.find("OLD RULE"), std::string::npos);
  EXPECT_TRUE(prompt.ends_with(
      "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>analysis<|message|>Need "
      "it.\n\nNow."
      "<|end|><|start|>assistant<|channel|>commentary<|message|>Let me "
      "look.<|end|><|start|>assistant"
      " to=functions.get_weather<|channel|>commentary "
      "<|constrain|>json<|message|>{\"city\":\"Oslo\"}<|call|>"
      "<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>4 C<|end|>"
      "<|start|>assistant"))
      << prompt;

  // Once answered, the thoughts are gone and the words before the call stay.
  respond(R"({"previous_response_id":")" + second["id"].get<std::string>() +
          R"(","input":"And?"})");
  prompt = last_prompt();
  EXPECT_EQ(prompt.find("<|channel|>analysis"), std::string::npos);
  EXPECT_NE(prompt.find("<|channel|>commentary<|message|>Let me look."), std::string::npos);
  EXPECT_TRUE(
      prompt.ends_with("<|start|>assistant<|channel|>final<|message|>It is 4, caf\xC3\xA9.<|end|>"
                       "<|start|>user<|message|>And?<|end|><|start|>assistant"))
      << prompt;
}

TEST_F(ResponsesTest, what_is_stored_can_be_fetched_listed_and_deleted) {
  start();
  say(kThink);
  const Json response =
      respond(R"({"input":[{"role":"user","content":"A"},{"role":"assistant","content":"B"},
      {"role":"user","content":"C","id":"mine"}]})");
  const std::string id = response["id"];
  EXPECT_EQ(get(id), response);
  Json items = get(id + "/input_items");
  ASSERT_EQ(items["data"].size(), 3u);
  EXPECT_EQ(items["data"][0]["id"], "mine");
  EXPECT_EQ(items["first_id"], "mine");
  EXPECT_EQ(items["has_more"], false);
  items = get(id + "/input_items?order=asc&limit=1&after=" +
              get(id + "/input_items?order=asc")["data"][0]["id"].get<std::string>());
  ASSERT_EQ(items["data"].size(), 1u);
  EXPECT_EQ(items["data"][0]["content"], "B");
  EXPECT_EQ(items["has_more"], true);
  EXPECT_EQ(call("GET", id + "/input_items?limit=0").status, 400);
  EXPECT_EQ(call("POST", id + "/cancel").status, 400);

  EXPECT_EQ((*parse_json(call("DELETE", id).body))["deleted"], true);
  for (const char* method : {"GET", "DELETE"}) EXPECT_EQ(call(method, id).status, 404) << method;

  const Json unstored = respond(ask("\"store\":false"));
  EXPECT_EQ(unstored["store"], false);
  EXPECT_EQ(call("GET", unstored["id"].get<std::string>()).status, 404);
  const Answer lost = send(R"({"previous_response_id":"resp_x","input":"Hi"})");
  EXPECT_EQ(lost.status, 404);
  EXPECT_EQ((*parse_json(lost.body))["error"]["param"], "previous_response_id");
}

TEST_F(ResponsesTest, what_is_stored_is_seen_by_its_own_key_only) {
  ServeOptions options;
  options.keys.api_key = {"sk-ann", "sk-bob"};
  start(options);
  const auto with = [](const char* key) { return strf("Authorization: Bearer %s\r\n", key); };
  RawClient client(port());
  const std::string id =
      (*parse_json(client.post("/v1/responses", ask(), with("sk-ann")).body))["id"];
  EXPECT_EQ(client.get("/v1/responses/" + id, with("sk-ann")).status, 200);
  EXPECT_EQ(client.get("/v1/responses/" + id, with("sk-bob")).status, 404);
  EXPECT_EQ(client.get("/v1/responses/" + id).status, 401);
  const std::string more = R"({"input":"And?","previous_response_id":")" + id + "\"}";
  EXPECT_EQ(client.post("/v1/responses", more, with("sk-bob")).status, 404);
  EXPECT_EQ(client.post("/v1/responses", more, with("sk-ann")).status, 200);
  // Anthropic's API refuses in its own words.
  const Json refused = *parse_json(client.post("/v1/messages", "{}").body);
  EXPECT_EQ(refused["type"], "error");
  EXPECT_EQ(refused["error"]["type"], "authentication_error");
}

TEST_F(ResponsesTest, without_a_store_nothing_is_kept) {
  ServeOptions options;
  options.response_store = "off";
  start(options);
  const Json response = respond(ask("\"store\":true"));
  EXPECT_EQ(response["store"], false);
  EXPECT_EQ(call("GET", response["id"].get<std::string>()).status, 404);
  EXPECT_EQ(send(ask("\"background\":true")).status, 400);
  EXPECT_EQ(send(ask("\"previous_response_id\":\"resp_x\"")).status, 404);
}

TEST_F(ResponsesTest, a_background_response_goes_on_alone) {
  start();
  say(kThink);
  engine_.hold_after = 3;
  const Json begun = respond(ask("\"background\":true"));
  EXPECT_EQ(begun["status"], "queued");
  const std::string id = begun["id"];
  EXPECT_EQ(get(id)["status"], "in_progress");
  EXPECT_EQ(send(R"({"input":"Hi","previous_response_id":")" + id + "\"}").status, 400);
  engine_.release();
  EXPECT_EQ(ended(id)["status"], "completed");
  EXPECT_EQ(get(id)["output"][1]["content"][0]["text"], "It is 4, caf\xC3\xA9.");
  EXPECT_EQ((*parse_json(call("POST", id + "/cancel").body))["status"], "completed");
}

TEST_F(ResponsesTest, a_background_response_can_be_cancelled_or_deleted) {
  start();
  say(kThink);
  engine_.hold_after = 3;
  const std::string id = respond(ask("\"background\":true"))["id"];
  EXPECT_EQ((*parse_json(call("POST", id + "/cancel").body))["status"], "cancelled");
  engine_.wait_until_idle();
  EXPECT_EQ(ended(id)["status"], "cancelled");
  EXPECT_EQ(engine_.cancelled(), 1);

  const std::string other = respond(ask("\"background\":true"))["id"];
  EXPECT_EQ(call("DELETE", other).status, 200);
  engine_.wait_until_idle();
  EXPECT_EQ(call("GET", other).status, 404);
  EXPECT_EQ(engine_.cancelled(), 2);
}

TEST_F(ResponsesTest, shutting_down_ends_background_responses) {
  const std::string path = ::testing::TempDir() + "/drained.db";
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path + end);
  ServeOptions options;
  options.response_store = path;
  start(options);
  engine_.hold_after = 3;
  const std::string id = respond(ask("\"background\":true"))["id"];
  const std::string done = [&] {
    engine_.release();
    return respond(ask("\"instructions\":\"keep\""))["id"].get<std::string>();
  }();
  engine_.hold_after = 3;
  const std::string cut = respond(ask("\"background\":true"))["id"];
  server_.reset();
  start(options);
  engine_.release();
  EXPECT_EQ(get(cut)["status"], "failed");
  EXPECT_EQ(get(done)["instructions"], "keep");
}

}  // namespace
}  // namespace rose
