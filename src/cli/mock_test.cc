// rose serve --device mock, whole: session, scheduler, server; no weights.
#include "model/mock.h"

#include <gtest/gtest.h>

#include "api/server_fixture.h"
#include "cli/mock_server.h"

namespace rose {
namespace {

using testing::Answer;
using testing::events;
using testing::joined;
using testing::RawClient;

ModelOptions fast_mock() { return testing::mock_options(0); }

class MockTest : public testing::MockServer {
 protected:
  Answer post(const std::string& fields) {
    return RawClient(port()).post(
        "/v1/chat/completions", R"({"messages":[{"role":"user","content":"Hi"}],)" + fields + "}");
  }
};

TEST_F(MockTest, says_its_script_also_over_many_pages_and_choices) {
  ModelOptions options = fast_mock();
  options.mock.answer_tokens = 500;
  start(options);
  std::string words = "word";
  for (int i = 1; i < 500; ++i) words += " word";
  for (int round = 0; round < 2; ++round) {  // the second from the prefix cache
    const Answer answer = post(R"("n":3,"max_tokens":2000)");
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json json = parse_json(answer.body).value();
    for (const Json& choice : json["choices"]) {
      EXPECT_EQ(choice["message"]["content"], words);
      EXPECT_EQ(choice["finish_reason"], "stop");
    }
  }
  const std::vector<Json> chunks = events(post(R"("stream":true)").body);
  EXPECT_EQ(joined(chunks)["message"]["content"], words);
  EXPECT_GE(chunks.size(), 500u) << "one event a token";
}

TEST_F(MockTest, earlier_turns_that_said_the_script_do_not_confuse_it) {
  ModelOptions options = fast_mock();
  options.mock.answer = "<|channel|>final<|message|>Yes.<|return|>";
  start(options);
  const Answer answer = RawClient(port()).post("/v1/chat/completions", R"({"messages":[
      {"role":"user","content":"Hi"},{"role":"assistant","content":"Yes."},
      {"role":"user","content":"Yes."}]})");
  EXPECT_EQ(parse_json(answer.body).value()["choices"][0]["message"]["content"], "Yes.")
      << answer.body;
}

TEST_F(MockTest, a_form_is_kept_though_the_script_knows_nothing_of_it) {
  start(fast_mock());
  const Answer answer = post(R"("seed":7,"structured_outputs":{"choice":["left","right"]})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string content =
      parse_json(answer.body).value()["choices"][0]["message"]["content"].get<std::string>();
  EXPECT_TRUE(content == "left" || content == "right") << content;
}

TEST_F(MockTest, tells_how_far_loading_is) {
  ModelOptions options = fast_mock();
  options.mock.load_s = .01;
  std::vector<int64_t> seen;
  start(options, [&](const LoadProgress& progress) { seen.push_back(progress.bytes); });
  ASSERT_EQ(seen.size(), 101u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST(Mock, what_it_cannot_do_is_refused) {
  const auto refused = [](ModelOptions options) {
    const auto session = open_session(options);
    return session ? std::string() : session.error().message;
  };
  ModelOptions options = fast_mock();
  options.mock.speed = -1;
  EXPECT_NE(refused(options).find("-1, wanted a number of 0 or more"), std::string::npos);
  options = fast_mock();
  options.model = "/nowhere/at/all";
  EXPECT_NE(refused(options).find("/nowhere/at/all"), std::string::npos);
}

TEST_F(MockTest, a_prompt_is_said_with_its_logprobs) {
  start(fast_mock());
  const Answer answer = RawClient(port()).post(
      "/v1/completions",
      R"({"prompt":"Hello world and all","echo":true,"logprobs":1,"max_tokens":2})");
  const Json choice = parse_json(answer.body).value()["choices"][0];
  EXPECT_TRUE(choice["text"].get<std::string>().starts_with("Hello world and all")) << choice;
}

}  // namespace
}  // namespace rose
