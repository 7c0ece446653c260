// Text for custom tools, out of the JSON that a model writes, however it is cut.
#include "api/custom_input.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace rose {
namespace {

// In pieces of so many bytes.
std::string unwrapped(const std::string& arguments, size_t piece) {
  CustomInput input;
  std::string text;
  for (size_t at = 0; at < arguments.size(); at += piece)
    text += input.push(std::string_view(arguments).substr(at, piece));
  return text + input.finish();
}

TEST(CustomInput, the_text_comes_out_however_it_is_cut) {
  struct {
    std::string arguments, text;
  } const cases[] = {
      {R"({"input":"ls -l"})", "ls -l"},
      {R"( { "input" :  "a" } trailing)", "a"},
      {R"({"input":""})", ""},
      {R"({"input":"a\n\t\"b\"\\ \/ \u00e9 \ud83d\ude00 é"})",
       "a\n\t\"b\"\\ / \xC3\xA9 \xF0\x9F\x98\x80 é"},
      {R"({"input":"\ud83d!\udc00\uzzzz\q."})", "\uFFFD!\uFFFD\uFFFD\uFFFD."},
      {R"({"input":"\ud83d\u0041"})", "\uFFFDA"},
      {R"({"input":"cut sho)", "cut sho"},
      {R"({"input":"cut \u00)", "cut "},
      // No such object: nothing is lost.
      {"ls -l", "ls -l"},
      {R"({"cmd":"ls"})", R"({"cmd":"ls"})"},
      {R"({"input":5})", R"({"input":5})"},
      {R"({"inp)", R"({"inp)"},
      {"", ""},
  };
  for (const auto& [arguments, text] : cases)
    for (const size_t piece : {1, 2, 3, 5, 100})
      EXPECT_EQ(unwrapped(arguments, piece), text) << arguments << " by " << piece;
}

TEST(CustomInput, wrapping_and_back_is_the_same_text) {
  const std::string text = "*** Begin\n\"q\" \\ \t \x01 é 😀 {}";
  EXPECT_EQ(unwrapped(wrap_custom_input(text), 1), text);
  EXPECT_EQ((*custom_input_schema("a+|b"))["properties"]["input"]["pattern"], "^(?:a+|b)$");
  EXPECT_FALSE((*custom_input_schema(""))["properties"]["input"].contains("pattern"));
}

}  // namespace
}  // namespace rose
