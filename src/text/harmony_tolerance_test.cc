// What models really write, and what a client must get of it: never an error, never lost text, never
// a special token in a field.
#include <gtest/gtest.h>

#include "text/harmony_json.h"
#include "text/harmony_testing.h"

namespace rose::harmony::testing {
namespace {

const std::string kNote =
    "<|channel|>commentary to=functions.read_note <|constrain|>json<|message|>";

std::vector<int> with(std::string_view text, std::vector<int> more, std::string_view after = "") {
  std::vector<int> out = ids(text);
  out.insert(out.end(), more.begin(), more.end());
  for (const int id : ids(after)) out.push_back(id);
  return out;
}

// --- headers ---

TEST(HarmonyTolerance, a_refusal_without_a_header_is_content_only_if_nothing_better_follows) {
  const std::string refusal = "No, this I will not do.<|end|>";
  EXPECT_EQ(
      read(refusal + "<|start|>assistant<|channel|>analysis<|message|>Must decline.<|end|>"
                     "<|start|>assistant<|channel|>final<|message|>Sorry, I can't help with "
                     "that.<|return|>"),
      (Turn{"No, this I will not do.\n\nMust decline.", "Sorry, I can't help with that.", {}}));
  EXPECT_EQ(read(refusal), (Turn{"", "No, this I will not do.", {}}));
  EXPECT_EQ(read("No, this I will not do."), (Turn{"", "No, this I will not do.", {}}));
  EXPECT_EQ(read(refusal + "<|start|>assistant<|channel|>final<|message|><|return|>"),
            (Turn{"", "No, this I will not do.", {}}));
}

TEST(HarmonyTolerance, surplus_stop_tokens_and_what_follows_them_are_noise) {
  const Turn seven = {"", "Seven.", {}};
  const std::string final = "<|channel|>final<|message|>Seven.";
  EXPECT_EQ(read(final + "<|end|><|return|>"), seven);
  EXPECT_EQ(read(final + "<|end|><|end|>"), seven);
  EXPECT_EQ(read(final + "<|return|> and so on"), seven);
  EXPECT_EQ(read(final + "<|return|><|start|>user<|message|>Again?<|end|>"), seven);
  EXPECT_EQ(read(final + "<|endoftext|>junk"), seven);
}

TEST(HarmonyTolerance, after_a_call_only_a_new_start_counts) {
  const std::string call =
      "<|channel|>commentary to=functions.run_sql <|constrain|>json<|message|>{\"q\":\"select "
      "1\"}<|call|>";
  const Turn one = {"", "", {"run_sql({\"q\":\"select 1\"})"}};
  EXPECT_EQ(
      read(call + "commentary<|channel|>commentary to=functions.run_sql<|message|>{}<|call|>"),
      one);
  EXPECT_EQ(read(call + "<|start|>assistant" + call).calls.size(), 2u);
}

TEST(HarmonyTolerance, a_forgotten_start_loses_no_text) {
  EXPECT_EQ(read("<|channel|>analysis<|message|>a<|end|>commentary to=functions.f "
                 "<|constrain|>json<|message|>{}<|call|>"),
            (Turn{"a", "", {"f({})"}}));
  EXPECT_EQ(
      read("<|channel|>analysis<|message|>a<|end|>assistant<|channel|>final<|message|>b<|return|>"),
      (Turn{"a", "b", {}}));
  EXPECT_EQ(read("<|channel|>final<|message|>a<|end|>b"), (Turn{"b", "a", {}}));
}

TEST(HarmonyTolerance, repeated_starts_and_roles_collapse) {
  const std::string ok = "<|channel|>analysis<|message|>ok<|end|>";
  EXPECT_EQ(read(ok + "<|start|><|start|>assistant<|channel|>final<|message|>4<|return|>"),
            (Turn{"ok", "4", {}}));
  EXPECT_EQ(read(ok + "<|start|>assistantassistant<|channel|>final<|message|>Hi<|return|>"),
            (Turn{"ok", "Hi", {}}));
  EXPECT_EQ(read("<|start|>assistant<|channel|>final<|message|>x<|return|>"), (Turn{"", "x", {}}));
  EXPECT_EQ(read("assistant<|channel|>final<|message|>x<|return|>"), (Turn{"", "x", {}}));
}

TEST(HarmonyTolerance, a_channel_that_is_missing_or_unknown_keeps_its_text) {
  EXPECT_EQ(read("<|channel|><|message|>Hello there<|return|>"), (Turn{"", "Hello there", {}}));
  EXPECT_EQ(read("<|channel|>finalx<|message|>Paris<|return|>"), (Turn{"", "Paris", {}}));
  EXPECT_EQ(read("<|message|>hi<|return|>"), (Turn{"", "hi", {}}));
  EXPECT_EQ(read("<|channel|>final\n<|message|>x<|return|>"), (Turn{"", "x", {}}));
  EXPECT_EQ(read("<|channel|>analysis<|channel|>final<|message|>x<|return|>"), (Turn{"", "x", {}}));
  EXPECT_EQ(read("<|channel|>commentary to=assistant<|channel|>analysis<|message|>x<|end|>"),
            (Turn{"x", "", {}}));
  EXPECT_EQ(read("<|start|>assistantfinal<|message|>x<|return|>"), (Turn{"", "x", {}}));
}

TEST(HarmonyTolerance, a_repeated_recipient_calls_once_and_the_last_one_counts) {
  EXPECT_EQ(read("<|channel|>commentary to=functions.read_note to=functions.read_note "
                 "<|constrain|>json<|message|>{\"id\":7}<|call|>"),
            (Turn{"", "", {"read_note({\"id\":7})"}}));
  EXPECT_EQ(read(" to=functions.a<|channel|>commentary to=functions.b json<|message|>{}<|call|>"),
            (Turn{"", "", {"b({})"}}));
}

TEST(HarmonyTolerance, text_without_its_message_token_is_kept) {
  EXPECT_EQ(read("<|channel|>final The sum is 12.<|return|>"), (Turn{"", "The sum is 12.", {}}));
  EXPECT_EQ(read("<|channel|>final The  sum\nis 12.\n"), (Turn{"", "The  sum\nis 12.\n", {}}));
  EXPECT_EQ(
      read("<|channel|>analysis Hm, so<|start|>assistant<|channel|>final<|message|>4<|return|>"),
      (Turn{"Hm, so", "4", {}}));
  EXPECT_EQ(read("<|channel|>analysis Hm, so<|channel|>final<|message|>4<|return|>"),
            (Turn{"Hm, so", "4", {}}));
  EXPECT_EQ(read("I think so.<|channel|>final<|message|>4<|return|>"),
            (Turn{"I think so.", "4", {}}));
  EXPECT_EQ(read("<|channel|>commentary to=functions.f <|constrain|>json{\"a\":1}<|call|>"),
            (Turn{"", "", {"f({\"a\":1})"}}));
  EXPECT_EQ(read(" to=functions.f{\"a\":1}<|call|>"), (Turn{"", "", {"f({\"a\":1})"}}));
  EXPECT_EQ(read("final answer to=5 assistant<|end|>"),
            (Turn{"", "final answer to=5 assistant", {}}));
}

TEST(HarmonyTolerance, a_bare_name_is_a_call_if_the_tool_is_listed) {
  const std::string bare =
      "<|channel|>commentary to=get_forecast "
      "<|constrain|>json<|message|>{\"city\":\"Oslo\"}<|call|>";
  EXPECT_EQ(read(bare, {"get_forecast"}), (Turn{"", "", {"get_forecast({\"city\":\"Oslo\"})"}}));
  EXPECT_EQ(read(bare, {"run_sql"}), (Turn{"", "{\"city\":\"Oslo\"}", {}}));
  EXPECT_EQ(read("<|channel|>analysis to=browser.search code<|message|>{}<|call|>"),
            (Turn{"{}", "", {}}));
  EXPECT_EQ(read(" to=functions.f<|reserved_200013|>x<|channel|>commentary<|message|>{}<|call|>"),
            (Turn{"", "", {"f({})"}}));
  EXPECT_EQ(read("<|channel|>commentary functions.f json<|message|>{}<|call|>"),
            (Turn{"", "", {"f({})"}}));
}

TEST(HarmonyTolerance, a_call_on_analysis_is_a_call) {
  EXPECT_EQ(
      read("<|channel|>analysis<|message|>Search.<|end|><|start|>assistant<|channel|>analysis "
           "to=functions.find_text code<|message|>{\"pat\":\"abc\"}<|call|>"),
      (Turn{"Search.", "", {"find_text({\"pat\":\"abc\"})"}}));
}

TEST(HarmonyTolerance, a_type_glued_to_the_name_is_cut_unless_such_a_tool_is_listed) {
  const std::string glued =
      "<|channel|>commentary to=functions.shelljson<|message|>{\"cmd\":\"ls\"}<|call|>";
  EXPECT_EQ(read(glued, {"shell"}).calls, (std::vector<std::string>{"shell({\"cmd\":\"ls\"})"}));
  EXPECT_EQ(read(glued, {"shell", "shelljson"}).calls,
            (std::vector<std::string>{"shelljson({\"cmd\":\"ls\"})"}));
  EXPECT_EQ(read(glued).calls, (std::vector<std::string>{"shelljson({\"cmd\":\"ls\"})"}));
}

TEST(HarmonyTolerance, the_constrain_marker_may_stand_anywhere) {
  const Turn call = {"", "", {"read_note({})"}};
  for (const char* header :
       {"commentary to=functions.read_note<|constrain|>json",
        "commentary <|constrain|>json to=functions.read_note",
        "commentary to=functions.read_note <|constrain|>edit the note",
        "commentary to=functions.read_note <|constrain|> json",
        "commentary to=functions.read_note json", "commentary json to=functions.read_note",
        "commentaryto=functions.read_note json", "commentary to= functions.read_note json"}) {
    SCOPED_TRACE(header);
    EXPECT_EQ(read("<|channel|>" + std::string(header) + "<|message|>{}<|call|>"), call);
  }
  EXPECT_EQ(
      read(" to=functions.read_note<|constrain|>json<|channel|>commentary<|message|>{}<|call|>"),
      call);
  // The marker spelled with ordinary tokens.
  EXPECT_EQ(read(with("<|channel|>commentary to=functions.f", {464, 91, 542, 141043, 91, 29, 4108},
                      "<|message|>{}<|call|>")),
            (Turn{"", "", {"f({})"}}));
  EXPECT_EQ(read("<|channel|>final <|constrain|>json<|message|>{}<|return|>"),
            (Turn{"", "{}", {}}));
  EXPECT_EQ(read("<|channel|>commentary json<|message|>{}<|end|>"), (Turn{"", "{}", {}}));
}

TEST(HarmonyTolerance, unicode_spaces_and_dashes_separate_like_blanks) {
  const Turn call = {"", "", {"get_forecast({\"city\":\"Rome\"})"}};
  for (const char* between : {"\u202f", "\u00a0", " ––commentary ", "––commentary ", "\t"}) {
    SCOPED_TRACE(between);
    EXPECT_EQ(
        read("<|channel|>commentary" + std::string(between) +
             "to=functions.get_forecast <|constrain|>json<|message|>{\"city\":\"Rome\"}<|call|>"),
        call);
  }
  EXPECT_EQ(read("<|channel|>––commentary "
                 "to=functions.get_forecast<|message|>{\"city\":\"Rome\"}<|call|>"),
            call);
}

TEST(HarmonyTolerance, a_call_may_end_in_any_way) {
  for (const char* end : {"<|call|>", "<|return|>", "<|end|>", ""}) {
    SCOPED_TRACE(end);
    EXPECT_EQ(read(kNote + "{\"id\":1}" + end), (Turn{"", "", {"read_note({\"id\":1})"}}));
  }
  EXPECT_EQ(read("<|channel|>commentary to=functions.f<|call|>"), (Turn{"", "", {"f()"}}));
}

TEST(HarmonyTolerance, a_tool_named_like_a_built_in_gets_what_the_model_wrote) {
  const std::string source = "<|channel|>analysis to=python code<|message|>print(1)<|call|>";
  EXPECT_EQ(read(source, {"python"}), (Turn{"", "", {"python(print(1))"}}));
  EXPECT_EQ(read(source), (Turn{"print(1)", "", {}}));
  EXPECT_EQ(read("<|channel|>commentary to=functions.db.query json<|message|>{}<|call|>").calls,
            (std::vector<std::string>{"db.query({})"}));
}

TEST(HarmonyTolerance, output_that_ends_inside_a_header_says_nothing) {
  for (const char* cut : {"<|channel|>analysis", "<|channel|>comment", "<|channel|>",
                          "<|start|>assistant", "<|channel|>commentary to=functions.read_no",
                          "<|channel|>commentary to=functions.f <|constrain|>js"}) {
    SCOPED_TRACE(cut);
    EXPECT_EQ(read(cut), Turn{});
  }
}

TEST(HarmonyTolerance, messages_of_a_kind_are_joined_in_order) {
  EXPECT_EQ(read("<|channel|>commentary<|message|>{\"path\":\"/\",\"name\":\"*x*\"}<|end|>"),
            (Turn{"", "{\"path\":\"/\",\"name\":\"*x*\"}", {}}));
  EXPECT_EQ(
      read("<|channel|>analysis<|message|>1<|end|><|start|>assistant<|channel|>analysis<|message|>2"
           "<|end|><|start|>assistant<|channel|>analysis<|message|>3<|end|><|start|>assistant"
           "<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant<|channel|>final"
           "<|message|>Done.<|return|>"),
      (Turn{"1\n\n2\n\n3", "Wait.\n\nDone.", {}}));
  EXPECT_EQ(read("<|channel|>final<|message|>{\"n\":[]}<|return|>"), (Turn{"", "{\"n\":[]}", {}}));
  EXPECT_EQ(
      read(
          "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>commentary<|message|>"
          "I'll check both files.<|end|><|start|>assistant" +
          kNote + "{\"id\":1}<|call|>"),
      (Turn{"x", "I'll check both files.", {"read_note({\"id\":1})"}}));
}

TEST(HarmonyTolerance, special_tokens_in_a_body_never_show) {
  EXPECT_EQ(
      read("<|channel|>final<|message|>a<|message|>b<|constrain|>c<|reserved_200500|>d<|end|>"),
      (Turn{"", "abcd", {}}));
  EXPECT_EQ(read("<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b<|"
                 "return|>"),
            (Turn{"a", "b", {}}));
  EXPECT_EQ(read("<|channel|>analysis<|message|>a<|channel|>final<|message|>b<|return|>"),
            (Turn{"a", "b", {}}));
  EXPECT_EQ(read(with("<|channel|>final<|message|>a", {-1, 1 << 30}, "b<|end|>")),
            (Turn{"", "ab", {}}));
}

TEST(HarmonyTolerance, what_the_model_says_for_others_is_no_answer) {
  EXPECT_EQ(read("<|channel|>final<|message|>a<|end|><|start|>user<|message|>b<|end|>"
                 "<|start|>functions.f to=assistant<|channel|>commentary<|message|>c<|end|>"),
            (Turn{"b\n\nc", "a", {}}));
}

// --- bytes ---

TEST(HarmonyTolerance, bad_bytes_cost_one_replacement_and_no_text) {
  const std::string final = "<|channel|>final<|message|>";
  EXPECT_EQ(read(with(final, {127, 32, 33}, "<|end|>")), (Turn{"", "\uFFFDAB", {}}));
  EXPECT_EQ(read(with(final, {172, 253, 32}, "<|end|>")), (Turn{"", "\uFFFDA", {}}));
  EXPECT_EQ(read(with("<|channel|>analysis<|message|>", {172, 253},
                      "<|end|><|start|>assistant<|channel|>final<|message|>ok<|return|>")),
            (Turn{"\uFFFD", "ok", {}}));
}

TEST(HarmonyTolerance, a_character_of_four_tokens_comes_out_whole) {
  const auto parser = format().parser({});
  std::vector<ChatEvent> events;
  for (const int token : with("<|channel|>final<|message|>", {172, 253, 246}))
    parser->push(token, events);
  EXPECT_TRUE(events.empty());
  parser->push(222, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "\U0001F600");
}

// --- messages of `rose parse --tolerant` ---

TEST(HarmonyTolerance, messages_are_those_that_a_careful_reader_would_see) {
  const auto messages = [](std::string_view text, Json role = "assistant") {
    return parse_json_line(tokenizer(), {{"tokens", ids(text)}, {"role", role}}, true)["messages"]
        .dump();
  };
  EXPECT_EQ(
      messages("No.<|end|><|start|>assistant<|channel|>final<|message|>x<|return|>"),
      R"([{"role":"assistant","content":"No."},{"role":"assistant","content":"x","channel":"final"}])");
  EXPECT_EQ(
      messages("<|start|>functions.f to=assistant<|channel|>commentary<|message|>42<|end|>",
               nullptr),
      R"([{"role":"tool","name":"functions.f","recipient":"assistant","content":"42","channel":"commentary"}])");
  EXPECT_EQ(messages("<|start|>user:bob<|message|>42<|end|>", nullptr),
            R"([{"role":"user","name":"bob","content":"42"}])");
  EXPECT_EQ(
      messages("<|channel|>commentary <|constrain|>json to=functions.f<|message|>{}<|call|>"),
      R"([{"role":"assistant","recipient":"functions.f","content":"{}","channel":"commentary","content_type":"<|constrain|>json"}])");
}

}  // namespace
}  // namespace rose::harmony::testing
