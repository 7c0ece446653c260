#include "cli/chat_commands.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"

namespace rose {
namespace {

class NamedBackend final : public ChatBackend {
 public:
  explicit NamedBackend(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::string about() const override { return "about " + name_ + "\n"; }
  Result<ChatAnswer> answer(const ChatPrompt&, const ChatSampling&,
                            const std::function<void(const ChatEvent&)>&,
                            const std::atomic<bool>&) override {
    return ChatAnswer{};
  }

 private:
  std::string name_;
};

class ChatCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/rose_chats";
    std::filesystem::remove_all(folder_);
    host_.folder = folder_;
  }
  std::string run(const std::string& line) { return slash_command(host_, line).text; }

  std::string folder_;
  ChatState state_;
  std::unique_ptr<ChatBackend> backend_ = std::make_unique<NamedBackend>("first");
  ChatHost host_{state_, backend_,
                 [](const std::string& model) -> Result<std::unique_ptr<ChatBackend>> {
                   if (model == "none") return fail(ErrorKind::not_found, "no such model");
                   return std::make_unique<NamedBackend>(model);
                 },
                 ""};
};

TEST_F(ChatCommands, parameters_have_the_names_of_both_worlds) {
  for (const char* line :
       {"/set parameter temperature 0.25", "/set parameter top_p 0.5", "/set parameter top_k 7",
        "/set parameter num_predict 9", "/set parameter repeat_penalty 1.5",
        "/set parameter seed 42", "/set parameter stop END", "/set parameter min-p 0.1"})
    EXPECT_EQ(run(line), "") << line;
  const ChatSampling& sampling = state_.sampling;
  EXPECT_EQ(sampling.temperature, 0.25);
  EXPECT_EQ(sampling.top_p, 0.5);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.max_tokens, 9);
  EXPECT_EQ(sampling.repetition_penalty, 1.5);
  EXPECT_EQ(sampling.seed, 42);
  EXPECT_EQ(sampling.min_p, 0.1);
  EXPECT_EQ(sampling.stop, std::vector<std::string>{"END"});
  run("/set parameter stop DONE");
  EXPECT_EQ(sampling.stop, std::vector<std::string>{"DONE"});
  const std::string shown = run("/show parameters");
  for (const char* part :
       {"temperature          0.25", "top_k                7", "effort               medium"})
    EXPECT_NE(shown.find(part), std::string::npos) << shown;

  EXPECT_EQ(run("/set parameter warmth 1").substr(0, 41),
            "no parameter 'warmth'; there are temperat");
  EXPECT_NE(run("/set parameter temperature hot").find("temperature: "), std::string::npos);
  EXPECT_NE(run("/set parameter temperature").find("a value is missing"), std::string::npos);
  EXPECT_NE(run("/set parameter num_ctx 5").find("--max-model-len"), std::string::npos);
  EXPECT_EQ(sampling.temperature, 0.25);
}

TEST_F(ChatCommands, switches_and_levels) {
  run("/set nothink");
  run("/set quiet");
  run("/set nohistory");
  run("/set format json");
  EXPECT_FALSE(state_.show_reasoning || state_.show_numbers || state_.keep_history);
  EXPECT_TRUE(state_.sampling.json);
  run("/set think high");
  run("/set verbose");
  run("/set history");
  run("/set noformat");
  EXPECT_TRUE(state_.show_reasoning && state_.show_numbers && state_.keep_history);
  EXPECT_FALSE(state_.sampling.json);
  EXPECT_EQ(state_.effort, ReasoningEffort::high);
  EXPECT_EQ(run("/effort extreme"), "reasoning effort 'extreme', wanted low, medium or high\n");
  EXPECT_EQ(run("/set format yaml"), "/set format: 'yaml', wanted json\n");
  run("/set system   Be brief.  Always.");
  EXPECT_EQ(state_.system, "Be brief.  Always.");
  EXPECT_EQ(run("/show system"), "Be brief.  Always.\n");
  EXPECT_EQ(run("/show info"), "about first\n");
}

TEST_F(ChatCommands, a_chat_is_saved_loaded_and_cleared) {
  state_.system = "Be \"brief\".";
  state_.effort = ReasoningEffort::low;
  state_.messages = {
      {.role = ChatMessage::Role::user, .content = "Hi\n😀"},
      {.role = ChatMessage::Role::assistant, .content = "Hello", .reasoning = "Greet."}};
  EXPECT_EQ(run("/save talk"), "saved as " + folder_ + "/talk.json\n");
  EXPECT_EQ(run("/show messages"), ">>> Hi\n😀\nHello\n");
  run("/clear");
  EXPECT_TRUE(state_.messages.empty());
  run("/system Other.");
  EXPECT_EQ(run("/load talk"), folder_ + "/talk.json: 2 messages\n");
  EXPECT_EQ(state_.system, "Be \"brief\".");
  EXPECT_EQ(state_.effort, ReasoningEffort::low);
  ASSERT_EQ(state_.messages.size(), 2u);
  EXPECT_EQ(state_.messages[1].reasoning, "Greet.");
  const ChatPrompt prompt = state_.prompt();
  EXPECT_EQ(prompt.messages.size(), 3u);
  EXPECT_EQ(prompt.messages[0].role, ChatMessage::Role::developer);

  for (const char* bad :
       {"{", "[]", R"({"messages":[{"role":"tool"}]})", R"({"messages":[],"effort":"x"})"}) {
    ASSERT_TRUE(write_file(folder_ + "/bad.json", bad));
    EXPECT_NE(run("/load bad").find("bad.json: "), std::string::npos) << bad;
    EXPECT_EQ(state_.messages.size(), 2u);
  }
  EXPECT_EQ(run("/save"), "a name is missing\n");
  EXPECT_EQ(run("/save .hidden"), "a name may not begin with a dot\n");
}

TEST_F(ChatCommands, another_model_takes_over) {
  state_.messages = {{.role = ChatMessage::Role::user, .content = "Hi"}};
  EXPECT_EQ(run("/load none"), "neither a saved chat nor a model: no such model\n");
  EXPECT_EQ(backend_->name(), "first");
  EXPECT_EQ(state_.messages.size(), 1u);
  EXPECT_EQ(run("/load second"), "second\n");
  EXPECT_EQ(backend_->name(), "second");
  EXPECT_TRUE(state_.messages.empty());
}

TEST_F(ChatCommands, files_go_with_messages) {
  const std::string path = folder_ + "/note.txt", odd = folder_ + "/odd.bin";
  std::filesystem::create_directories(folder_);
  ASSERT_TRUE(write_file(path, "one\n```\ntwo"));
  ASSERT_TRUE(write_file(odd, std::string("\xff\0", 2)));
  const std::string block = "\n\n" + path + ":\n````\none\n```\ntwo\n````";
  EXPECT_EQ(*with_files("Sum up @" + path + "."), "Sum up " + path + "." + block);
  EXPECT_EQ(*with_files("mail a@b.c or @nobody"), "mail a@b.c or @nobody");
  EXPECT_NE(with_files("@" + odd).error().message.find("is no text"), std::string::npos);
  EXPECT_EQ(run("/file " + path), path + " goes with your next message\n");
  EXPECT_EQ(state_.attached, block);
  EXPECT_NE(run("/file " + folder_ + "/none").find("none"), std::string::npos);
}

TEST_F(ChatCommands, help_lists_and_completion_finds) {
  EXPECT_TRUE(slash_command(host_, "/bye").leave);
  EXPECT_TRUE(slash_command(host_, "/exit").leave);
  for (const char* part : {"/set …", "/load NAME", "/?", "\"\"\""})
    EXPECT_NE(run("/?").find(part), std::string::npos) << part;
  EXPECT_NE(run("/? set").find("/set parameter NAME VALUE"), std::string::npos);
  EXPECT_NE(run("/? shortcuts").find("Ctrl-R"), std::string::npos);
  EXPECT_NE(run("/set").find("/set nothink"), std::string::npos);
  EXPECT_NE(run("/show wonder").find("/show has no 'wonder'"), std::string::npos);
  EXPECT_NE(run("/wonder").find("no command /wonder"), std::string::npos);
  EXPECT_EQ(slash_commands("/cl"), std::vector<std::string>{"/clear"});
  EXPECT_EQ(slash_commands("/set no"),
            (std::vector<std::string>{"/set nothink", "/set noformat", "/set nohistory",
                                      "/set nowordwrap"}));
  EXPECT_TRUE(slash_commands("hello").empty());
}

}  // namespace
}  // namespace rose
