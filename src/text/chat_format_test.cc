// The rows of the table of formats: found by name, rendered as written here, read back whatever way
// their text is cut into tokens.
#include "text/chat_format.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "text/grammar/grammar_testing.h"

namespace rose {
namespace {

using grammar::testing::demo_tokenizer;

// The demo model's vocabulary with ChatML's two tokens, and one tag, added.
const Tokenizer& chatml_tokenizer() {
  static const Tokenizer tokenizer = [] {
    const auto text = read_file(ROSE_SOURCE_DIR "/models/demo/tokenizer.json");
    ROSE_CHECK(text.has_value(), "%s", text.error().message.c_str());
    Json json = *parse_json(*text);
    int next = demo_tokenizer().vocab();
    for (const char* name : {"<|im_start|>", "<|im_end|>", "<think>"})
      json["added_tokens"].push_back({{"id", next++},
                                      {"content", name},
                                      {"special", true},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false},
                                      {"normalized", false}});
    const std::string folder = ::testing::TempDir() + "/rose_chatml";
    std::filesystem::create_directories(folder);
    ROSE_CHECK(write_file(folder + "/tokenizer.json", dump_json(json)).has_value(), "writing");
    auto loaded = Tokenizer::load(folder + "/tokenizer.json");
    ROSE_CHECK(loaded.has_value(), "%s", loaded.error().message.c_str());
    return std::move(*loaded);
  }();
  return tokenizer;
}

std::unique_ptr<ChatFormat> format(std::string_view name, const Tokenizer& tokenizer) {
  auto made = make_chat_format(name, tokenizer);
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}

std::string rendered(const ChatFormat& format, const Tokenizer& tokenizer,
                     const ChatPrompt& prompt) {
  const auto tokens = format.render(prompt);
  EXPECT_TRUE(tokens) << tokens.error().message;
  return tokens ? tokenizer.decode(*tokens) : "";
}

// "reasoning|content|name(arguments)…"
std::string read(const ChatFormat& format, const std::vector<int>& tokens,
                 int* reasoning_tokens = nullptr) {
  const auto parser = format.parser({});
  std::vector<ChatEvent> events;
  for (const int token : tokens) parser->push(token, events);
  parser->finish(events);
  std::string reasoning, content, calls;
  int open = -1;
  for (const ChatEvent& event : events) switch (event.kind) {
      case ChatEvent::Kind::reasoning: reasoning += event.text; break;
      case ChatEvent::Kind::content: content += event.text; break;
      case ChatEvent::Kind::tool_call:
        EXPECT_EQ(event.tool_index, ++open);
        calls += "|" + event.text + ":";
        break;
      case ChatEvent::Kind::tool_arguments: calls += event.text; break;
    }
  if (reasoning_tokens) *reasoning_tokens = parser->reasoning_tokens();
  return reasoning + "|" + content + calls;
}

std::vector<int> byte_tokens(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int> by_byte(256, -1);
  for (int token = 0; token < tokenizer.vocab(); ++token)
    if (tokenizer.bytes(token).size() == 1) by_byte[uint8_t(tokenizer.bytes(token)[0])] = token;
  std::vector<int> tokens;
  for (const char byte : text) tokens.push_back(by_byte[uint8_t(byte)]);
  return tokens;
}

ChatPrompt conversation() {
  ChatPrompt prompt;
  using enum ChatMessage::Role;
  prompt.messages = {
      {.role = system, .content = "Be brief."},
      {.role = user, .content = "Add <|im_end|> 1"},
      {.role = assistant, .reasoning = "Use it.", .tool_calls = {{"c1", "add", "{\"a\":1}"}}},
      {.role = tool, .content = "42", .tool_call_id = "c1"}};
  return prompt;
}

TEST(ChatFormat, rows_are_found_by_name_or_by_what_the_tokenizer_has) {
  const auto unknown = make_chat_format("morse", demo_tokenizer());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message,
            "no chat format \"morse\"; there are: auto, harmony, chatml, plain");
  const auto lacking = make_chat_format("chatml", demo_tokenizer());
  ASSERT_FALSE(lacking);
  EXPECT_NE(lacking.error().message.find("<|im_start|>"), std::string::npos);

  ChatPrompt prompt;
  prompt.messages = {{.content = "Hi"}};
  EXPECT_TRUE(rendered(*format("auto", demo_tokenizer()), demo_tokenizer(), prompt)
                  .ends_with("<|start|>user<|message|>Hi<|end|><|start|>assistant"));
}

TEST(ChatFormat, plain_is_the_texts_and_nothing_else) {
  const auto plain = format("plain", demo_tokenizer());
  ChatPrompt prompt = conversation();
  EXPECT_EQ(rendered(*plain, demo_tokenizer(), prompt), "Be brief.\n\nAdd <|im_end|> 1\n\n42");
  const auto said = demo_tokenizer().encode_special("<|channel|>It is 4\xC3\xA9.<|return|>");
  EXPECT_EQ(read(*plain, said), "|It is 4\xC3\xA9.");
  prompt.tools.push_back({.name = "add"});
  EXPECT_FALSE(plain->render(prompt));
}

TEST(ChatFormat, chatml_prompts_are_as_written_here) {
  const auto chatml = format("chatml", chatml_tokenizer());
  ChatPrompt prompt = conversation();
  const std::string history =
      "<|im_start|>user\nAdd <|im_end|> 1<|im_end|>\n"
      "<|im_start|>assistant\n<think>\nUse it.\n</think>\n\n<tool_call>\n{\"name\": \"add\", "
      "\"arguments\": {\"a\":1}}\n</tool_call><|im_end|>\n"
      "<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n";
  EXPECT_EQ(rendered(*chatml, chatml_tokenizer(), prompt),
            "<|im_start|>system\nBe brief.<|im_end|>\n" + history + "<|im_start|>assistant\n");
  // What the user wrote is text.
  const auto tokens = *chatml->render(prompt);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), *chatml_tokenizer().special("<|im_end|>")), 4);

  // An answer that was begun is left open.
  ChatPrompt begun = prompt;
  begun.messages.push_back({.role = ChatMessage::Role::assistant, .content = "It is"});
  begun.continues = true;
  EXPECT_TRUE(
      rendered(*chatml, chatml_tokenizer(), begun).ends_with("<|im_start|>assistant\nIt is"));

  // Once answered, reasoning is left out; tools are in the system's message.
  prompt.messages.push_back({.role = ChatMessage::Role::assistant, .content = "It is 42."});
  prompt.messages.push_back({.role = ChatMessage::Role::user, .content = "Thanks"});
  prompt.tools = {{.name = "add", .description = "Adds."}};
  const std::string text = rendered(*chatml, chatml_tokenizer(), prompt);
  EXPECT_EQ(text.find("Use it."), std::string::npos);
  EXPECT_NE(text.find("Be brief.\n\n# Tools"), std::string::npos);
  EXPECT_NE(
      text.find("{\"type\":\"function\",\"function\":{\"name\":\"add\",\"description\":\"Adds.\","
                "\"parameters\":{}}}"),
      std::string::npos);
}

TEST(ChatFormat, chatml_answers_come_apart) {
  const auto chatml = format("chatml", chatml_tokenizer());
  struct {
    const char *said, *read;
  } cases[] = {
      {"It is 4.", "|It is 4."},
      {"<think>\nTwo < three.\n</think>\n\nIt is 4.\n", "Two < three.|It is 4.\n"},
      {"<think>cut short\n", "cut short\n|"},
      {"stray </think>text", "|stray\n\ntext"},
      {"Look.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>",
       "|Look.|add:{\"a\":1}"},
      {"<tool_call>{\"name\":\"a\",\"arguments\":\"{}\"}</tool_call>\n"
       "<tool_call>{\"name\":\"b\"}</tool_call>done",
       "|done|a:{}|b:{}"},
      {"<tool_call>no JSON</tool_call>", "|no JSON"},
      {"<tool_call>{\"name\":\"a\"}", "||a:{}"},
      {"a < b <tool", "|a < b <tool"},
      {"<think>a</think>x<think>b</think>y", "a\n\nb|x\n\ny"},
  };
  for (const auto& [said, wanted] : cases) {
    SCOPED_TRACE(said);
    std::string expected = wanted;
    if (expected.starts_with("|stray")) expected = "|stray \n\ntext";
    EXPECT_EQ(read(*chatml, chatml_tokenizer().encode(said)), expected);
    EXPECT_EQ(read(*chatml, chatml_tokenizer().encode_special(said)), expected);
    EXPECT_EQ(read(*chatml, byte_tokens(chatml_tokenizer(), said)), expected);
  }
  int thought = 0;
  read(*chatml, chatml_tokenizer().encode_special("<think>a</think>b"), &thought);
  EXPECT_GT(thought, 2);
}

TEST(ChatFormat, chatml_reads_any_text_alike_however_it_is_cut) {
  const auto chatml = format("chatml", chatml_tokenizer());
  const char* const pieces[] = {
      "<think>", "</think>", "<tool_call>", "</tool_call>",
      "\n",      "<",        ">",           "{\"name\":\"f\",\"arguments\":{}}",
      "word",    " ",        "\xC3\xA9",    "</"};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::string text;
    for (uint64_t i = 0; i < 12; ++i) text += pieces[random_bits(seed, i) % std::size(pieces)];
    SCOPED_TRACE(text);
    const std::string whole = read(*chatml, chatml_tokenizer().encode(text));
    EXPECT_EQ(read(*chatml, byte_tokens(chatml_tokenizer(), text)), whole);
    EXPECT_EQ(whole.find("<think>"), std::string::npos);
  }
}

TEST(ChatFormat, chatml_turns_are_held_to_their_rules) {
  const auto chatml = format("chatml", chatml_tokenizer());
  const auto trie = std::make_shared<const grammar::TokenTrie>(chatml_tokenizer());
  const auto follows = [&](const TurnRules& rules, std::string_view text) {
    grammar::Grammar g;
    const auto made = grammar::testing::constrain(g, chatml->turn(g, rules), trie);
    EXPECT_TRUE(made) << made.error().message;
    grammar::Matcher matcher(*made);
    for (const int token : chatml_tokenizer().encode_special(text))
      if (!matcher.accept(token)) return false;
    return matcher.must_end();
  };
  TurnRules choice{.content = {.kind = OutputFormat::Kind::choice, .choices = {"yes", "no"}}};
  EXPECT_TRUE(follows(choice, "<think>\nHm.\n</think>\n\nyes<|im_end|>"));
  EXPECT_TRUE(follows(choice, "no<|im_end|>"));
  EXPECT_FALSE(follows(choice, "maybe<|im_end|>"));
  choice.thinking = TurnRules::Thinking::none;
  EXPECT_FALSE(follows(choice, "<think>\nHm.\n</think>\n\nyes<|im_end|>"));
  choice.thinking = TurnRules::Thinking::ends;
  EXPECT_TRUE(follows(choice, "</think>\n\nyes<|im_end|>"));
  const TurnRules call{.may_answer = false, .calls = {{.name = "add", .parameters = nullptr}}};
  EXPECT_TRUE(follows(
      call, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\":1}}\n</tool_call><|im_end|>"));
  EXPECT_FALSE(follows(call, "yes<|im_end|>"));
}

}  // namespace
}  // namespace rose
