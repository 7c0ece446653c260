// Chat completions over HTTP: what the model says, as its client sees it.
#include "api/server_fixture.h"

namespace rose {
namespace {

using testing::Answer;
using testing::demo_tokenizer;
using testing::events;
using testing::joined;
using testing::kCall;
using testing::RawClient;
using testing::ServerTest;

class ChatTest : public ServerTest {
 protected:
  std::vector<Json> stream(const std::string& fields = "") {
    const Answer answer = post(chat("\"stream\":true" + (fields.empty() ? "" : "," + fields)));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("Content-Type"), "text/event-stream; charset=utf-8");
    return events(answer.body);
  }
  static int count(const std::string& harmony) {
    return int(demo_tokenizer().encode_special(harmony).size());
  }
};

constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"get_weather","description":"Weather","parameters":
       {"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}},
       {"type":"function","function":{"name":"add"}}])";

constexpr const char* kThinkEmoji =
    "<|channel|>analysis<|message|>Two and two.<|end|><|start|>assistant<|channel|>final<|message|>"
    "It is 4, caf\xC3\xA9 \xF0\x9F\x98\x80.<|return|>";

TEST_F(ChatTest, reasoning_and_content_come_apart) {
  start();
  say(kThinkEmoji);
  engine_.cached_tokens = 5;
  Json body = complete();
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "demo");
  EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
  Json choice = body["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["reasoning"], "Two and two.");
  EXPECT_EQ(choice["message"]["reasoning_content"], "Two and two.");
  EXPECT_EQ(choice["message"]["content"], "It is 4, caf\xC3\xA9 \xF0\x9F\x98\x80.");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["logprobs"].is_null());

  Json usage = body["usage"];
  EXPECT_EQ(usage["prompt_tokens"], engine_.requests()[0].prompt.size());
  EXPECT_EQ(usage["completion_tokens"], count(kThinkEmoji));
  EXPECT_EQ(usage["total_tokens"],
            usage["prompt_tokens"].get<int>() + usage["completion_tokens"].get<int>());
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 5);
  const int reasoning = usage["completion_tokens_details"]["reasoning_tokens"];
  EXPECT_GT(reasoning, 0);
  EXPECT_LT(reasoning, count(kThinkEmoji));

  EXPECT_FALSE(
      complete("\"include_reasoning\":false")["choices"][0]["message"].contains("reasoning"));
}

TEST_F(ChatTest, the_prompt_is_the_conversation) {
  start();
  post(R"({"messages":[{"role":"system","content":"Be brief."},
      {"role":"user","content":[{"type":"text","text":"Add <|end|>"},{"type":"input_text","text":" 1"}]},
      {"role":"assistant","reasoning_content":"Use it.","content":null,"tool_calls":[
        {"id":"c1","type":"function","function":{"name":"add","arguments":"{\"a\":1}"}}]},
      {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"4"},{"type":"text","text":"2"}]}],
      "reasoning_effort":"high",)" +
       std::string(kTools) + "}");
  ASSERT_EQ(engine_.requests().size(), 1u);
  const std::vector<int> prompt = engine_.requests()[0].prompt;
  const std::string text = demo_tokenizer().decode(prompt);
  for (const char* part :
       {"Reasoning: high", "Current date: 2026-01-31", "Be brief.",
        "type get_weather = ", "<|start|>user<|message|>Add <|end|> 1<|end|>",
        "<|start|>assistant<|channel|>analysis<|message|>Use it.<|end|>", "{\"a\":1}<|call|>",
        "<|start|>functions.add to=assistant<|channel|>commentary<|message|>42<|end|>"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_TRUE(text.ends_with("<|start|>assistant"));
  // What the user wrote is text, not a control token.
  const int end = *demo_tokenizer().special("<|end|>");
  const std::vector<int> forged = demo_tokenizer().encode("Add <|end|> 1");
  EXPECT_EQ(std::count(forged.begin(), forged.end(), end), 0);
  EXPECT_NE(std::search(prompt.begin(), prompt.end(), forged.begin(), forged.end()), prompt.end());

  post(chat(std::string("\"tool_choice\":\"none\",") + kTools));
  EXPECT_EQ(demo_tokenizer().decode(engine_.requests()[1].prompt).find("get_weather"),
            std::string::npos);
}

TEST_F(ChatTest, sampling_fields_reach_the_engine) {
  start();
  post(chat(R"("temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"presence_penalty":0.2,
      "frequency_penalty":0.3,"repetition_penalty":1.1,"seed":-7,"logit_bias":{"12":-5},"n":2,
      "max_tokens":30,"max_completion_tokens":20,"min_tokens":2,"stop_token_ids":[9],"priority":3,
      "cache_salt":"s","logprobs":true,"top_logprobs":2)"));
  ASSERT_EQ(engine_.requests().size(), 1u);
  const Request request = engine_.requests()[0];
  EXPECT_FLOAT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_FLOAT_EQ(request.sampling.top_p, 0.9f);
  EXPECT_EQ(request.sampling.top_k, 40);
  EXPECT_FLOAT_EQ(request.sampling.min_p, 0.1f);
  EXPECT_FLOAT_EQ(request.sampling.presence_penalty, 0.2f);
  EXPECT_FLOAT_EQ(request.sampling.frequency_penalty, 0.3f);
  EXPECT_FLOAT_EQ(request.sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(request.sampling.seed, uint64_t(-7));
  ASSERT_EQ(request.sampling.logit_bias.size(), 1u);
  EXPECT_EQ(request.sampling.logit_bias[0].token, 12);
  EXPECT_EQ(request.sampling.logprobs, 2);
  EXPECT_EQ(request.choices, 2);
  EXPECT_EQ(request.max_tokens, 20);
  EXPECT_EQ(request.min_tokens, 2);
  EXPECT_EQ(request.priority, 3);
  EXPECT_EQ(request.cache_salt, "s");
  std::vector<int> stops = format_->stop_tokens();
  stops.insert(stops.begin(), 9);
  EXPECT_EQ(request.stop_tokens, stops);

  post(chat(R"("ignore_eos":true,"top_p":0)"));
  EXPECT_TRUE(engine_.requests()[1].stop_tokens.empty());
  EXPECT_EQ(engine_.requests()[1].sampling.temperature, 0);
  EXPECT_EQ(engine_.requests()[1].max_tokens, 0);
}

TEST_F(ChatTest, a_stream_joins_to_the_body_however_it_is_cut) {
  start();
  const std::string fields[] = {"\"seed\":1", kTools, "\"stop\":[\"4, c\",\"look\"]",
                                "\"max_tokens\":9", "\"logprobs\":true,\"top_logprobs\":1"};
  for (const char* said : {kThinkEmoji, kCall}) {
    say(said);
    for (const std::string& extra : fields) {
      engine_.chunk = 1;
      Json body = complete(extra);
      Json want = body["choices"][0];
      for (int chunk : {1, 2, 3, 7, 60}) {
        SCOPED_TRACE(strf("%s in chunks of %d with %s", said, chunk, extra.c_str()));
        engine_.chunk = chunk;
        const auto chunks = stream(extra);
        Json got = joined(chunks);
        for (const char* field : {"role", "content", "reasoning", "reasoning_content"})
          EXPECT_EQ(got["message"].value(field, Json()), want["message"].value(field, Json()))
              << field;
        Json calls = got["message"].value("tool_calls", Json::array());
        Json want_calls = want["message"].value("tool_calls", Json::array());
        ASSERT_EQ(calls.size(), want_calls.size());
        for (size_t i = 0; i < calls.size(); ++i) {
          EXPECT_EQ(calls[i]["function"], want_calls[i]["function"]);
          EXPECT_TRUE(calls[i]["id"].get<std::string>().starts_with("call_"));
        }
        EXPECT_EQ(got["finish_reason"], want["finish_reason"]);
        EXPECT_EQ(got["stop_reason"], want["stop_reason"]);
        if (want["logprobs"].is_object()) {
          EXPECT_EQ(got["logprobs"], want["logprobs"]["content"]);
        }
        for (const Json& one : chunks) {
          EXPECT_EQ(one["id"], chunks[0]["id"]);
          EXPECT_EQ(one["object"], "chat.completion.chunk");
          EXPECT_FALSE(one.contains("usage"));
        }
        EXPECT_EQ(chunks[0]["choices"][0]["delta"], Json({{"role", "assistant"}, {"content", ""}}));
      }
    }
  }
}

TEST_F(ChatTest, a_call_has_an_id_a_name_and_its_arguments) {
  start();
  say(kCall);
  Json choice = complete(kTools)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Let me look.");
  EXPECT_EQ(choice["message"]["reasoning"], "Need it.");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  Json call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "get_weather");
  EXPECT_EQ(call["function"]["arguments"], "{\"city\":\"Oslo\"}");
  EXPECT_EQ(call["id"].get<std::string>().size(), 5u + 24u);

  // Cut in the middle of its arguments: what there is, and why it ended.
  Json cut = complete(kTools + strf(",\"max_tokens\":%d", count(kCall) - 2))["choices"][0];
  EXPECT_EQ(cut["finish_reason"], "length");
  EXPECT_EQ(cut["message"]["tool_calls"].size(), 1u);
}

TEST_F(ChatTest, stop_strings_look_at_the_final_text_only) {
  start();
  say("<|channel|>analysis<|message|>Sing a "
      "song.<|end|><|start|>assistant<|channel|>final<|message|>"
      "La la song la.<|return|>");
  Json choice = complete("\"stop\":\"song\"")["choices"][0];
  EXPECT_EQ(choice["message"]["reasoning"], "Sing a song.");
  EXPECT_EQ(choice["message"]["content"], "La la ");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], "song");
  choice = complete("\"stop\":[\"song\"],\"include_stop_str_in_output\":true")["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "La la song");
  engine_.wait_until_idle();
}

TEST_F(ChatTest, a_stop_string_ends_what_the_engine_would_go_on_with) {
  start();
  say("<|channel|>final<|message|>one two three four five six<|return|>");
  // Past "two" it would wait for ever.
  engine_.hold_after = count("<|channel|>final<|message|>one two") + 1;
  Json body = complete("\"stop\":\"two\"");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "one ");
  engine_.wait_until_idle();
  EXPECT_EQ(engine_.cancelled(), 1);
}

TEST_F(ChatTest, an_answer_that_ends_in_its_header_or_reasoning_is_no_error) {
  start();
  say(kThinkEmoji);
  Json choice = complete("\"max_tokens\":2")["choices"][0];
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_FALSE(choice["message"].contains("reasoning"));
  EXPECT_EQ(choice["finish_reason"], "length");
  Json body = complete("\"max_tokens\":5");
  EXPECT_TRUE(body["choices"][0]["message"]["content"].is_null());
  EXPECT_FALSE(body["choices"][0]["message"]["reasoning"].get<std::string>().empty());
  EXPECT_EQ(body["usage"]["completion_tokens"], 5);
}

TEST_F(ChatTest, usage_comes_last_when_asked_for) {
  start();
  say(kThinkEmoji);
  auto chunks = stream("\"stream_options\":{\"include_usage\":true}");
  EXPECT_TRUE(chunks.back()["choices"].empty());
  EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], count(kThinkEmoji));
  for (size_t i = 0; i + 1 < chunks.size(); ++i)
    EXPECT_TRUE(chunks[i].contains("usage") && chunks[i]["usage"].is_null());

  chunks = stream("\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}");
  int before = 0;
  for (const Json& chunk : chunks) {
    EXPECT_GE(chunk["usage"]["completion_tokens"], before);
    before = chunk["usage"]["completion_tokens"];
  }
  EXPECT_EQ(before, count(kThinkEmoji));
}

TEST_F(ChatTest, the_tokens_themselves_come_if_asked_for) {
  start();
  const std::string extra = kTools + std::string(",\"return_token_ids\":true");
  for (const char* said : {kThinkEmoji, kCall}) {
    say(said);
    const std::vector<int> tokens = demo_tokenizer().encode_special(said);
    engine_.chunk = 1;
    Json body = complete(extra);
    EXPECT_EQ(body["choices"][0]["token_ids"], tokens);
    EXPECT_EQ(body["prompt_token_ids"], engine_.requests().back().prompt);
    for (const int chunk : {1, 7, 200}) {
      engine_.chunk = chunk;
      const auto chunks = stream(extra);
      std::vector<int> streamed;
      for (const Json& one : chunks)
        for (const Json& token : one["choices"][0].value("token_ids", Json::array()))
          streamed.push_back(token);
      EXPECT_EQ(streamed, tokens);
      EXPECT_EQ(chunks[0]["prompt_token_ids"], engine_.requests().back().prompt);
      EXPECT_FALSE(chunks[1].contains("prompt_token_ids"));
    }
  }
  EXPECT_FALSE(complete()["choices"][0].contains("token_ids"));
}

TEST_F(ChatTest, each_choice_has_its_own_text) {
  start();
  engine_.script = [](const Request&, int choice) {
    return demo_tokenizer().encode_special(
        strf("<|channel|>final<|message|>choice %d<|return|>", choice));
  };
  Json body = complete("\"n\":3");
  const auto chunks = stream("\"n\":3");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(body["choices"][size_t(i)]["index"], i);
    EXPECT_EQ(body["choices"][size_t(i)]["message"]["content"], strf("choice %d", i));
    EXPECT_EQ(joined(chunks, i)["message"]["content"], strf("choice %d", i));
    EXPECT_EQ(joined(chunks, i)["finish_reason"], "stop");
  }
}

TEST_F(ChatTest, logprobs_are_those_of_the_content) {
  start();
  for (const char* said : {kThinkEmoji, kCall}) {
    say(said);
    Json choice = complete("\"logprobs\":true,\"top_logprobs\":2")["choices"][0];
    std::string joined_bytes;
    for (const Json& entry : choice["logprobs"]["content"]) {
      for (const Json& byte : entry["bytes"]) joined_bytes += char(byte.get<int>());
      EXPECT_EQ(entry["top_logprobs"].size(), 2u);
      EXPECT_LT(entry["logprob"].get<double>(), 0);
    }
    EXPECT_EQ(joined_bytes, choice["message"]["content"].get<std::string>());
  }
  say(kThinkEmoji);
  Json cut = complete("\"logprobs\":true,\"stop\":\"4\"")["choices"][0];
  std::string text;
  for (const Json& entry : cut["logprobs"]["content"]) text += entry["token"].get<std::string>();
  EXPECT_EQ(text.substr(0, 6), "It is ");
  EXPECT_TRUE(complete("\"logprobs\":true")["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
                  .empty());
}

TEST_F(ChatTest, logprobs_of_broken_characters_keep_to_the_content) {
  start();
  const auto byte = [](char c) {
    for (int token = 0; token < demo_tokenizer().vocab(); ++token)
      if (demo_tokenizer().bytes(token) == std::string_view(&c, 1)) return token;
    return -1;
  };
  std::vector<int> tokens = demo_tokenizer().encode_special("<|channel|>final<|message|>");
  for (const char c : {'\xC3', 'A', 'B', '\xF0', '\x9F'}) tokens.push_back(byte(c));
  tokens.push_back(*demo_tokenizer().special("<|return|>"));
  engine_.script = [tokens](const Request&, int) { return tokens; };
  Json choice = complete("\"logprobs\":true")["choices"][0];
  EXPECT_EQ(choice["message"]["content"],
            "\xEF\xBF\xBD"
            "AB"
            "\xEF\xBF\xBD");
  std::string bytes;
  for (const Json& entry : choice["logprobs"]["content"])
    for (const Json& value : entry["bytes"]) bytes += char(value.get<int>());
  EXPECT_EQ(bytes,
            "\xC3"
            "AB"
            "\xF0\x9F");
}

TEST_F(ChatTest, text_held_back_for_a_stop_string_comes_before_the_call) {
  start();
  say(kCall);
  int content_ended = -1, call_began = -1, at = 0;
  for (const Json& chunk : stream(kTools + std::string(",\"stop\":\"look. Now\""))) {
    for (const auto& [key, value] : chunk["choices"][0]["delta"].items()) {
      if (key == "content") content_ended = at;
      if (key == "tool_calls" && call_began < 0) call_began = at;
    }
    ++at;
  }
  EXPECT_GT(content_ended, 0);
  EXPECT_GT(call_began, content_ended);
}

TEST_F(ChatTest, streams_that_interleave_do_not_mix) {
  start();
  engine_.script = [](const Request& request, int) {
    const std::string word = strf("word%llu", (unsigned long long)*request.sampling.seed);
    return demo_tokenizer().encode_special(
        "<|channel|>analysis<|message|>think " + word +
        "<|end|><|start|>assistant<|channel|>final<|message|>say " + word + "<|return|>");
  };
  engine_.hold_after = 3;
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 32; ++i) {
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->send_post("/v1/chat/completions",
                              chat(strf("\"stream\":true,\"seed\":%d", 1000 + i)));
  }
  while (engine_.requests().size() < clients.size()) std::this_thread::yield();
  engine_.release();
  for (int i = 0; i < 32; ++i) {
    Json message = joined(events(clients[size_t(i)]->read().body))["message"];
    EXPECT_EQ(message["reasoning"], strf("think word%d", 1000 + i));
    EXPECT_EQ(message["content"], strf("say word%d", 1000 + i));
  }
}

TEST_F(ChatTest, an_answer_that_was_begun_goes_on) {
  start();
  say(" is 4.<|return|>");
  const std::string messages = R"({"messages":[{"role":"user","content":"2+2?"},
      {"role":"assistant","reasoning":"Two.","content":"The sum"}],"continue_final_message":true)";
  const Json choice = (*parse_json(post(messages + ",\"logprobs\":true}").body))["choices"][0];
  EXPECT_EQ(choice["message"]["content"], " is 4.");
  EXPECT_EQ(choice["logprobs"]["content"].size(), demo_tokenizer().encode(" is 4.").size());
  EXPECT_TRUE(
      demo_tokenizer()
          .decode(engine_.requests().back().prompt)
          .ends_with("<|start|>assistant<|channel|>analysis<|message|>Two.<|end|><|start|>assistant"
                     "<|channel|>final<|message|>The sum"));
  // What follows its end is read as always, and a budget of reasoning has nothing to bind.
  say(" is<|end|><|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>");
  const Json called =
      (*parse_json(post(messages + R"(,"reasoning_effort":"none","add_generation_prompt":false,
      "tools":[{"type":"function","function":{"name":"f"}}]})")
                       .body))["choices"][0]["message"];
  EXPECT_EQ(called["content"], " is");
  EXPECT_EQ(called["tool_calls"].size(), 1u);
  EXPECT_FALSE(engine_.requests().back().constraint);
  for (const char* wrong :
       {",\"add_generation_prompt\":true}", ",\"response_format\":{\"type\":\"json_object\"}}"})
    EXPECT_EQ(post(messages + wrong).status, 400) << wrong;
  EXPECT_EQ(post(chat("\"continue_final_message\":true")).status, 400);
  EXPECT_EQ(post(chat("\"add_generation_prompt\":false")).status, 400);
}

}  // namespace
}  // namespace rose
