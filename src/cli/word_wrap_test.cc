#include "cli/word_wrap.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

std::string wrapped(const std::string& text, int columns, size_t piece) {
  WordWrap wrap(columns);
  std::string out;
  for (size_t at = 0; at < text.size(); at += piece)
    out += wrap.push(std::string_view(text).substr(at, piece));
  return out + wrap.finish();
}

TEST(WordWrap, lines_break_between_words_however_the_text_comes) {
  struct {
    const char *text, *lines;
  } const cases[] = {
      {"one two three", "one two\nthree"},
      {"one two  x", "one two\nx"},
      {"  indented", "  indented"},
      {"exactly8 x", "exactly8\nx"},
      {"a longwordofmany b", "a\nlongwordofmany b"},
      {"one\n\ntwo three", "one\n\ntwo\nthree"},
      {"", ""},
  };
  for (const auto& [text, lines] : cases)
    for (const size_t piece : {1, 3, 100}) EXPECT_EQ(wrapped(text, 8, piece), lines) << piece;
  EXPECT_EQ(wrapped("one two three", 0, 3), "one two three");
  EXPECT_EQ(wrapped("caf\xC3\xA9 \xC3\xA9t\xC3\xA9 x", 8, 100), "caf\xC3\xA9 \xC3\xA9t\xC3\xA9\nx");
  // Without spaces: four characters of two columns fill a line.
  EXPECT_EQ(wrapped("日本語日本語", 8, 3), "日本語日\n本語");
}

TEST(WordWrap, a_word_comes_out_with_what_follows_it) {
  WordWrap wrap(20);
  EXPECT_EQ(wrap.push("one two"), "one");
  EXPECT_EQ(wrap.push(" "), " two");
  EXPECT_EQ(wrap.finish(), "");
}

}  // namespace
}  // namespace rose
