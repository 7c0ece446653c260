#include "cli/options.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace rose {
namespace {

struct SampleOptions {
  std::string model;
  int batch = 1;
  int64_t memory_bytes = 0;
  double temperature = 1;
  bool cache = true;
  std::vector<int> lengths = {512};
  std::vector<std::string> names;

  template <class Visit>
  void each(Visit&& visit) {
    visit("model,--model,-m", model, "a folder");
    visit("--max-batch,-b", batch, "sequences");
    visit("--memory-bytes", memory_bytes, "memory");
    visit("--temperature", temperature, "heat");
    visit("--cache", cache, "reuse");
    visit("--lengths", lengths, "several");
    visit("--name", names, "may be given more than once");
  }
};

Result<SampleOptions> parse(const std::vector<std::string>& arguments) {
  SampleOptions sample;
  const Result<Parsed> parsed =
      parse_options({"sample", "A sample.", "  rose sample\n"}, sample, arguments);
  if (!parsed) return tl::unexpected<Error>(parsed.error());
  return sample;
}

std::string error_of(const std::vector<std::string>& arguments) {
  const Result<SampleOptions> sample = parse(arguments);
  if (sample) return "(no error)";
  EXPECT_EQ(sample.error().kind, ErrorKind::usage);
  return sample.error().message;
}

TEST(Options, every_spelling_of_a_name_reaches_the_field) {
  EXPECT_EQ(parse({"folder"})->model, "folder");
  EXPECT_EQ(parse({"--model", "folder"})->model, "folder");
  EXPECT_EQ(parse({"-m", "folder"})->model, "folder");
  EXPECT_EQ(parse({"--max-batch=7"})->batch, 7);
  EXPECT_EQ(parse({"--max_batch", "7"})->batch, 7);
  EXPECT_EQ(parse({"-b", "7"})->batch, 7);
  EXPECT_EQ(parse({"--max-batch", "7", "--max-batch", "8"})->batch, 8);
}

TEST(Options, an_underscore_in_a_value_stays) {
  EXPECT_EQ(parse({"--model=my_model"})->model, "my_model");
  EXPECT_EQ(parse({"my_model"})->model, "my_model");
}

TEST(Options, whole_numbers_take_binary_suffixes) {
  EXPECT_EQ(parse({"--max-batch", "4k"})->batch, 4096);
  EXPECT_EQ(parse({"--memory-bytes", "3G"})->memory_bytes, int64_t(3) << 30);
  EXPECT_EQ(error_of({"--max-batch", "3G"}), "--max-batch: 3G is too large or negative");
  EXPECT_EQ(error_of({"--memory-bytes", "9999999999G"}),
            "--memory-bytes: '9999999999G' is not a whole number");
}

TEST(Options, a_value_of_the_wrong_kind_is_named) {
  EXPECT_EQ(error_of({"--max-batch", "x"}), "--max-batch: 'x' is not a whole number");
  EXPECT_EQ(error_of({"--max-batch", "1.5"}), "--max-batch: '1.5' is not a whole number");
  EXPECT_EQ(error_of({"--temperature", "warm"}), "--temperature: 'warm' is not a number");
  EXPECT_EQ(error_of({"--temperature", "nan"}), "--temperature: 'nan' is not a number");
  EXPECT_EQ(error_of({"--lengths", "1,,2"}), "--lengths: '' is not a whole number");
}

TEST(Options, flags_turn_on_and_off) {
  EXPECT_TRUE(parse({})->cache);
  EXPECT_FALSE(parse({"--no-cache"})->cache);
  EXPECT_TRUE(parse({"--no-cache", "--cache"})->cache);
}

TEST(Options, lists_replace_their_default_and_repeated_names_collect) {
  EXPECT_EQ(parse({"--lengths", "1,2k"})->lengths, (std::vector<int>{1, 2048}));
  EXPECT_EQ(parse({"--name", "a", "--name", "b"})->names, (std::vector<std::string>{"a", "b"}));
}

TEST(Options, a_typing_error_is_answered_with_the_nearest_name) {
  EXPECT_EQ(error_of({"--max-bach", "7"}), "no option --max-bach; did you mean --max-batch?");
  EXPECT_EQ(error_of({"--frobnicate"}), "no option --frobnicate");
  EXPECT_EQ(error_of({"one", "two"}), "an argument too many: 'two'");
}

TEST(Options, the_environment_speaks_where_the_command_line_does_not) {
  ::setenv("ROSE_MAX_BATCH", "5", 1);
  EXPECT_EQ(parse({})->batch, 5);
  EXPECT_EQ(parse({"--max-batch", "6"})->batch, 6);
  ::setenv("ROSE_MAX_BATCH", "many", 1);
  EXPECT_EQ(error_of({}), "--max-batch: 'many' is not a whole number");
  ::unsetenv("ROSE_MAX_BATCH");
}

struct Named {
  int port = 1;
  std::vector<std::string> keys;
  template <class Visit>
  void each(Visit&& visit) {
    visit("--port,$PORT_OF_TEST", port, "where");
    visit("$KEY_A,--key,$KEY_B", keys, "who");
  }
};

TEST(Options, other_programs_variables_speak_last) {
  const auto parse_named = [](std::vector<std::string> arguments) {
    Named named;
    EXPECT_TRUE(parse_options({"test", "Tests.", ""}, named, arguments));
    return named;
  };
  ::setenv("PORT_OF_TEST", "7", 1);
  ::setenv("KEY_B", "b", 1);
  EXPECT_EQ(parse_named({}).port, 7);
  EXPECT_EQ(parse_named({}).keys, std::vector<std::string>{"b"});
  ::setenv("KEY_A", "a", 1);
  EXPECT_EQ(parse_named({}).keys, std::vector<std::string>{"a"});
  ::setenv("ROSE_PORT", "8", 1);
  EXPECT_EQ(parse_named({}).port, 8);
  EXPECT_EQ(parse_named({"--port", "9", "--key", "c"}).port, 9);
  EXPECT_EQ(parse_named({"--key", "c"}).keys, std::vector<std::string>{"c"});
  for (const char* name : {"PORT_OF_TEST", "KEY_A", "KEY_B", "ROSE_PORT"}) ::unsetenv(name);
}

struct Twice {
  int tokens = 0, choices = 0;

  template <class Visit>
  void each(Visit&& visit) {
    visit("--max-tokens,-n", tokens, "");
    visit("--n", choices, "");
  }
};

TEST(OptionsDeathTest, two_options_may_not_share_a_bare_name) {
  Twice twice;
  EXPECT_DEATH((void)parse_options({"sample", "A sample.", ""}, twice, {}),
               "'--max-tokens,-n' and '--n' share the name n");
}

TEST(Options, nearest_prefers_close_words_and_refuses_far_ones) {
  const std::vector<std::string> commands = {"serve", "chat", "generate"};
  EXPECT_EQ(nearest("sevre", commands), "serve");
  EXPECT_EQ(nearest("generat", commands), "generate");
  EXPECT_EQ(nearest("x", commands), "");
  EXPECT_EQ(nearest("--frob", std::vector<std::string>{"--json"}), "");
}

}  // namespace
}  // namespace rose
