#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

#include "base/json.h"
#include "text/tokenizer.h"

namespace rose {
namespace {

std::string streamed(std::string_view bytes, size_t chunk) {
  Utf8Stream stream;
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += chunk) out += stream.push(bytes.substr(at, chunk));
  return out + stream.finish();
}

TEST(Utf8Stream, holds_back_what_may_become_a_character) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.push("\x92"), "");
  EXPECT_EQ(stream.push("\x96z"), "💖z");
  EXPECT_EQ(stream.push("\xE4\xB8"), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

// The examples of the Unicode standard, section 3.9 (tables 3-8 to 3-11).
TEST(Utf8Stream, one_replacement_for_each_maximal_bad_part) {
  const std::pair<const char*, const char*> kCases[] = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "\uFFFD\uFFFD\uFFFD\uFFFDA"},
      {"\xF4\x8F\xBF\xBF\xEF\xBF\xBF\xEE\x80\x80", "\U0010FFFF\uFFFF\uE000"},
  };
  for (const auto& [bytes, want] : kCases)
    for (size_t chunk = 1; chunk < 12; ++chunk) EXPECT_EQ(streamed(bytes, chunk), want) << chunk;
}

TEST(Utf8Stream, how_the_bytes_are_cut_makes_no_difference) {
  // Bytes at the borders of the rules, so that whole characters come about too.
  const std::string_view kBytes =
      "aZ\x7F\x80\x8F\x90\x9F\xA0\xBF\xC1\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF1\xF4\xF5\xFF";
  const std::vector<std::string> kCharacters = {"a",  "é",      "߿", "ࠀ",
                                                "中", "\uFFFD", "😀",  "\U0010FFFF"};
  std::mt19937 random(5);
  for (int i = 0; i < 500; ++i) {
    std::string bytes, good;
    for (int j = 0; j < 30; ++j) bytes += kBytes[random() % kBytes.size()];
    for (int j = 0; j < 30; ++j) good += kCharacters[random() % kCharacters.size()];
    const std::string whole = streamed(bytes, bytes.size() + 1);
    EXPECT_TRUE(parse_json(Json(whole).dump()));  // it is UTF-8
    for (const size_t chunk : {1, 2, 3, 7}) ASSERT_EQ(streamed(bytes, chunk), whole);
    ASSERT_EQ(streamed(good, 1), good);
  }
}

}  // namespace
}  // namespace rose
