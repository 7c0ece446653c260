// Completions, and the other routes that are about tokens: tokenize, detokenize, render.
#include "api/server_fixture.h"

namespace rose {
namespace {

using testing::Answer;
using testing::demo_tokenizer;
using testing::events;
using testing::RawClient;
using testing::ServerTest;

class CompletionsTest : public ServerTest {
 protected:
  Answer send(const std::string& body, const char* path = "/v1/completions") {
    return RawClient(port()).post(path, body);
  }
  Json get(const std::string& body, const char* path = "/v1/completions") {
    const Answer answer = send(body, path);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return parse_json(answer.body).value_or(Json::object());
  }
  void expect_refused(const std::string& body, const char* param, const char* message,
                      const char* path = "/v1/completions") {
    SCOPED_TRACE(body);
    const Answer answer = send(body, path);
    EXPECT_EQ(answer.status, 400);
    const Json error =
        parse_json(answer.body).value_or(Json::object()).value("error", Json::object());
    const Json shown = error.value("param", Json());
    EXPECT_EQ(shown.is_null() ? "" : shown.get<std::string>(), param);
    EXPECT_NE(error.value("message", "").find(message), std::string::npos) << error;
  }
};

TEST_F(CompletionsTest, text_goes_in_and_out_without_a_chat_format) {
  start();
  say(" world<|channel|>!<|return|>");
  const Json body = get(R"({"model":"demo","prompt":"<|start|>Hello"})");
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("cmpl-"));
  const Json choice = body["choices"][0];
  EXPECT_EQ(choice["text"], " world!");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["logprobs"].is_null());
  // A prompt that is written by hand may name special tokens.
  EXPECT_EQ(engine_.requests()[0].prompt, demo_tokenizer().encode_special("<|start|>Hello"));
  EXPECT_EQ(engine_.requests()[0].max_tokens, 16);
  EXPECT_EQ(body["usage"]["prompt_tokens"], engine_.requests()[0].prompt.size());

  EXPECT_EQ(get(R"({"prompt":"x","skip_special_tokens":false})")["choices"][0]["text"],
            " world<|channel|>!<|return|>");
  EXPECT_EQ(get(R"({"prompt":"x","stop":"rld"})")["choices"][0]["text"], " wo");
}

TEST_F(CompletionsTest, several_prompts_and_choices_are_numbered_through) {
  start();
  engine_.script = [](const Request& request, int choice) {
    return demo_tokenizer().encode(demo_tokenizer().decode(request.prompt) + strf("-%d", choice));
  };
  const std::vector<int> ids = demo_tokenizer().encode("ids");
  const std::string prompts = R"("prompt":["one","two",)" + dump_json(Json(ids)) + R"(],"n":2)";
  const Json body = get("{" + prompts + ",\"echo\":true}");
  ASSERT_EQ(body["choices"].size(), 6u);
  const char* const wanted[] = {"oneone-0", "oneone-1", "twotwo-0",
                                "twotwo-1", "idsids-0", "idsids-1"};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["text"], wanted[i]);
  }
  EXPECT_EQ(engine_.requests().size(), 3u);

  std::map<int, std::string> streamed;
  for (const Json& chunk : events(send("{" + prompts + ",\"echo\":true,\"stream\":true}").body))
    for (const Json& choice : chunk["choices"])
      streamed[choice["index"]] += choice["text"].get<std::string>();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(streamed[i], wanted[i]);

  engine_.cached_tokens = 1;
  const Json usage = get("{\"prompt\":" + dump_json(Json(ids)) + "}")["usage"];
  EXPECT_EQ(usage["prompt_tokens"], ids.size());
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 1);
}

TEST_F(CompletionsTest, logprobs_are_columns) {
  start();
  say("caf\xC3\xA9 au lait<|return|>");
  const Json whole = get(R"({"prompt":"x","logprobs":2})")["choices"][0];
  const Json columns = whole["logprobs"];
  const size_t tokens = columns["tokens"].size();
  EXPECT_GT(tokens, 2u);
  EXPECT_EQ(columns["token_logprobs"].size(), tokens);
  EXPECT_EQ(columns["top_logprobs"][0].size(), 2u);
  EXPECT_EQ(columns["tokens"].back(), "<|return|>");  // shows nothing, but is one
  EXPECT_EQ(columns["text_offset"][0], 0);
  EXPECT_EQ(columns["text_offset"][1], columns["tokens"][0].get<std::string>().size());

  Json streamed;
  for (const Json& chunk : events(send(R"({"prompt":"x","logprobs":2,"stream":true})").body))
    for (const Json& choice : chunk["choices"])
      for (const auto& [name, column] : choice["logprobs"].items())
        for (const Json& value : column) streamed[name].push_back(value);
  EXPECT_EQ(streamed, columns);
}

TEST_F(CompletionsTest, echo_with_logprobs_has_those_of_the_prompt) {
  start();
  say(" bc Stop<|return|>");
  const std::vector<int> prompt = demo_tokenizer().encode("Stop a, \xF0\x9F\x98\x80 and b.");
  const std::string request =
      R"({"echo":true,"logprobs":1,"max_tokens":3,"stop":"Stop","prompt":)" +
      dump_json(Json(prompt));
  const Json body = get(request + "}");
  const Json choice = body["choices"][0];
  EXPECT_EQ(choice["text"].get<std::string>().substr(0, 17), "Stop a, \xF0\x9F\x98\x80 and ");
  const Json columns = choice["logprobs"];
  std::string joined;
  ASSERT_GE(columns["tokens"].size(), prompt.size() + 2);
  for (size_t i = 0; i < prompt.size(); ++i)
    EXPECT_EQ(columns["token_logprobs"][i].is_null(), i == 0) << i;
  EXPECT_TRUE(columns["top_logprobs"][0].is_null());
  EXPECT_EQ(columns["top_logprobs"][1].size(), 1u);
  EXPECT_EQ(columns["text_offset"][1], demo_tokenizer().bytes(prompt[0]).size());
  EXPECT_EQ(body["usage"]["prompt_tokens"], prompt.size());
  EXPECT_LE(body["usage"]["completion_tokens"], 3);
  EXPECT_EQ(body["usage"]["completion_tokens"].get<size_t>(),
            columns["tokens"].size() - prompt.size());
  const Request sent = engine_.requests().back();
  EXPECT_EQ(sent.prompt.size(), 1u);
  EXPECT_EQ(sent.opening.size(), prompt.size() - 1);
  EXPECT_EQ(sent.max_tokens, int(prompt.size()) - 1 + 3);

  std::string text;
  Json streamed;
  for (const Json& chunk : events(send(request + ",\"stream\":true}").body))
    for (const Json& part : chunk["choices"]) {
      text += part["text"].get<std::string>();
      for (const auto& [name, column] : part["logprobs"].items())
        for (const Json& value : column) streamed[name].push_back(value);
    }
  EXPECT_EQ(text, choice["text"]);
  EXPECT_EQ(streamed, columns);

  const Json several =
      get(R"({"echo":true,"logprobs":0,"max_tokens":1,"n":2,"prompt":["one","two or three"]})");
  EXPECT_TRUE(several["choices"][3]["text"].get<std::string>().starts_with("two or three"));
  EXPECT_EQ(several["choices"][0]["logprobs"]["token_logprobs"][0], nullptr);
}

TEST_F(CompletionsTest, a_form_binds_the_text) {
  start();
  say("yes<|return|>");
  get(R"({"prompt":"x","guided_choice":["yes","no"]})");
  const Request request = engine_.requests().back();
  ASSERT_TRUE(request.constraint);
  const auto constraint = request.constraint();
  for (const int token : demo_tokenizer().encode_special("no<|return|>")) {
    EXPECT_TRUE(constraint->mask()[size_t(token) / 32] >> (token % 32) & 1);
    constraint->accept(token);
  }
  EXPECT_TRUE(constraint->complete());
}

TEST_F(CompletionsTest, a_full_queue_refuses_all_prompts_of_a_request) {
  start();
  engine_.busy = true;
  EXPECT_EQ(send(R"({"prompt":["a","b"]})").status, 429);
  engine_.busy = false;
  EXPECT_EQ(send(R"({"prompt":["a","b"]})").status, 200);
}

TEST_F(CompletionsTest, wrong_requests_are_named) {
  start();
  expect_refused("{}", "prompt", "is missing");
  expect_refused(R"({"prompt":""})", "prompt", "is empty");
  expect_refused(R"({"prompt":[]})", "prompt", "is empty");
  expect_refused(R"({"prompt":[1,-2]})", "prompt", "wanted token ids in 0..");
  expect_refused(R"({"prompt":[[1],["x"]]})", "prompt[1]", "wanted token ids in 0..");
  expect_refused(R"({"prompt":["a",{}]})", "prompt[1]", "wanted a string");
  expect_refused(R"({"prompt":"a","suffix":"b"})", "suffix", "not supported");
  expect_refused(R"({"prompt":"a","best_of":3})", "best_of", "3 is not n, 1");
  expect_refused(R"({"prompt":"a","logprobs":21})", "logprobs", "21 is not in 0..20");
  expect_refused(R"({"prompt":"a","max_tokens":5000})", "max_tokens", "context is 4096 tokens");
  EXPECT_TRUE(engine_.requests().empty());
  EXPECT_EQ(send(R"({"prompt":"a","best_of":2,"n":2,"suffix":""})").status, 200);
}

TEST_F(CompletionsTest, text_becomes_tokens_and_back) {
  start();
  const std::string text = "It is 4, caf\xC3\xA9. <|end|>";
  const Json body = {{"prompt", text}, {"return_token_strs", true}};
  const Json tokenized = get(dump_json(body), "/tokenize");
  EXPECT_EQ(tokenized["tokens"], demo_tokenizer().encode_special(text));
  EXPECT_EQ(tokenized["count"], tokenized["tokens"].size());
  EXPECT_EQ(tokenized["max_model_len"], 4096);
  EXPECT_EQ(tokenized["token_strs"].back(), "<|end|>");
  EXPECT_EQ(get(dump_json({{"tokens", tokenized["tokens"]}}), "/detokenize")["prompt"], text);

  // llama.cpp's shape.
  const Json pieces = get(R"({"content":"ab","with_pieces":true})", "/tokenize");
  EXPECT_TRUE(pieces["tokens"][0].contains("piece"));
  EXPECT_EQ(get(R"({"content":"<|end|>","parse_special":false})", "/tokenize")["tokens"],
            demo_tokenizer().encode("<|end|>"));
  EXPECT_EQ(get(R"({"tokens":[]})", "/detokenize")["content"], "");

  expect_refused("{}", "prompt", "is missing", "/tokenize");
  expect_refused(R"({"tokens":[999999]})", "tokens", "wanted token ids", "/detokenize");
  expect_refused("[]", "", "wanted a JSON object", "/detokenize");
}

TEST_F(CompletionsTest, special_tokens_are_told_from_text_that_looks_like_them) {
  start();
  std::vector<int> tokens = demo_tokenizer().encode_special("<|start|>user<|message|>");
  for (const int token : demo_tokenizer().encode("a <|end|>")) tokens.push_back(token);
  tokens.push_back(*demo_tokenizer().special("<|end|>"));
  const Json answer = get(dump_json({{"tokens", tokens}, {"return_pieces", true}}), "/detokenize");
  const Json wanted =
      *parse_json(R"([{"text":"<|start|>","special":true},{"text":"user","special":false},
      {"text":"<|message|>","special":true},{"text":"a <|end|>","special":false},{"text":"<|end|>","special":true}])");
  EXPECT_EQ(answer["pieces"], wanted);
}

TEST_F(CompletionsTest, a_chat_can_be_seen_as_the_model_sees_it) {
  start();
  post(chat("\"reasoning_effort\":\"high\""));
  const std::vector<int> prompt = engine_.requests()[0].prompt;
  for (const char* path : {"/v1/chat/completions/render", "/tokenize"}) {
    const Json rendered = get(chat("\"reasoning_effort\":\"high\""), path);
    EXPECT_EQ(rendered["tokens"], prompt);
    EXPECT_EQ(rendered["count"], prompt.size());
  }
  EXPECT_EQ(get(chat("\"reasoning_effort\":\"high\""), "/v1/chat/completions/render")["prompt"],
            demo_tokenizer().decode(prompt));
  expect_refused(R"({"messages":[]})", "messages", "is missing or empty",
                 "/v1/chat/completions/render");
}

TEST_F(CompletionsTest, the_openapi_document_has_every_route_and_field) {
  start();
  const Json document = *parse_json(RawClient(port()).get("/openapi.json").body);
  EXPECT_EQ(document["openapi"], "3.1.0");
  const Json paths = document["paths"];
  for (const char* path : {"/v1/chat/completions", "/v1/responses/{id}/cancel", "/v1/messages",
                           "/metrics", "/v1/models/{id}"})
    EXPECT_TRUE(paths.contains(path)) << path;
  EXPECT_TRUE(paths["/v1/responses/{id}"].contains("delete"));
  const Json fields = paths["/v1/completions"]["post"]["requestBody"]["content"]["application/json"]
                           ["schema"]["properties"];
  EXPECT_TRUE(fields.contains("temperature") && fields.contains("guided_regex"));
  EXPECT_EQ(fields["suffix"]["description"],
            "Not supported: put what comes before the gap into the prompt.");
}

TEST_F(CompletionsTest, a_probe_that_generates_waits_for_its_token) {
  start();
  EXPECT_EQ(RawClient(port()).get("/health_generate").status, 200);
  EXPECT_EQ(engine_.requests().back().max_tokens, 1);
  engine_.ending = Finish::failed;
  EXPECT_EQ(RawClient(port()).get("/health_generate").status, 500);
  engine_.busy = true;
  EXPECT_EQ(RawClient(port()).get("/health_generate").status, 429);
}

TEST_F(CompletionsTest, the_tokenizer_introduces_itself_and_other_trades_are_declined) {
  start();
  const Json info = *parse_json(RawClient(port()).get("/tokenizer_info").body);
  EXPECT_EQ(info["vocab_size"], demo_tokenizer().vocab());
  EXPECT_EQ(info["eos_token"], "<|return|>");
  const Answer declined = send("{}", "/v1/embeddings");
  EXPECT_EQ(declined.status, 404);
  EXPECT_NE(declined.body.find("generates text and nothing else"), std::string::npos);
}

}  // namespace
}  // namespace rose
