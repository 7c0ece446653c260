#include "text/splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/o200k.h"

namespace rose {
namespace {

using Strings = std::vector<std::string>;

Strings split(const Splitter& splitter, std::string_view text) {
  Strings all;
  Splitter::Pieces pieces(splitter, text);
  for (auto piece = pieces.next(); !piece.empty(); piece = pieces.next()) all.emplace_back(piece);
  return all;
}

Strings split(std::string_view text) {
  static const Splitter o200k = *Splitter::compile(o200k::kPattern);
  return split(o200k, text);
}

TEST(Splitter, words_of_any_script_are_pieces) {
  EXPECT_EQ(split(""), Strings{});
  EXPECT_EQ(split("don't"), (Strings{"don't"}));
  EXPECT_EQ(split("DON'T WE'ſ"), (Strings{"DON'T", " WE'ſ"}));
  EXPECT_EQ(split("camelCase"), (Strings{"camel", "Case"}));
  EXPECT_EQ(split("HTTPServer"), (Strings{"HTTPServer"}));
  EXPECT_EQ(split("नमस्ते"), (Strings{"नमस्ते"}));
  EXPECT_EQ(split("ที่"), (Strings{"ที่"}));
  EXPECT_EQ(split("עִבְרִית"), (Strings{"עִבְרִית"}));
  EXPECT_EQ(split("a😀b"), (Strings{"a", "😀b"}));
}

TEST(Splitter, digits_and_symbols) {
  EXPECT_EQ(split("12345"), (Strings{"123", "45"}));
  EXPECT_EQ(split("1٣Ⅷ½"), (Strings{"1٣Ⅷ", "½"}));
  EXPECT_EQ(split(");//\n/x"), (Strings{");//\n/", "x"}));
  EXPECT_EQ(split(" ==a"), (Strings{" ==", "a"}));
}

TEST(Splitter, space_is_what_unicode_calls_white_space) {
  EXPECT_EQ(split("a   b"), (Strings{"a", "  ", " b"}));
  EXPECT_EQ(split("a \r\n \n b"), (Strings{"a", " \r\n \n", " b"}));
  for (const char* space : {"\t", "\v", "\f", "\u0085", "\u00A0", "\u1680", "\u2000", "\u200A",
                            "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"})
    EXPECT_EQ(split(std::string("1") + space + space + "1"), (Strings{"1", space, space, "1"}))
        << space;
  for (const char* other : {"\u180E", "\u200B", "\u2060", "\uFEFF", "\x1C", "\x1F"})
    EXPECT_EQ(split(std::string("1") + other + other + "1"),
              (Strings{"1", std::string(other) + other, "1"}))
        << other;
}

TEST(Splitter, other_classes_are_unicode_too) {
  const Splitter words = *Splitter::compile(R"(\d+|\w+|\S)");
  EXPECT_EQ(split(words, "éa٣٣1 ١1!"), (Strings{"éa٣٣1", " ", "١1", "!"}));
}

TEST(Splitter, bytes_that_are_no_text_are_pieces_of_their_own) {
  EXPECT_EQ(split("a\xFF\xFE b"), (Strings{"a", "\xFF\xFE", " b"}));
  EXPECT_EQ(split("\xE4\xB8"), (Strings{"\xE4\xB8"}));
  EXPECT_EQ(split("\xE4\xB8中"), (Strings{"\xE4\xB8", "中"}));
  EXPECT_EQ(split("a \xC0"), (Strings{"a", " ", "\xC0"}));  // a text ends before them
}

TEST(Splitter, what_no_match_covers_is_a_piece) {
  EXPECT_EQ(split(*Splitter::compile("a"), "abba"), (Strings{"a", "bb", "a"}));
  EXPECT_EQ(split(*Splitter::compile("b*"), "abba"), (Strings{"a", "bb", "a"}));  // never empty
  EXPECT_EQ(split(*Splitter::compile("$^"), "abba"), (Strings{"abba"}));
  EXPECT_EQ(split(*Splitter::compile("a\\Kb"), "abba"), (Strings{"a", "b", "ba"}));
}

// Steps grow with 2^n, or the stack with n: both are ended by a limit.
TEST(Splitter, a_pattern_that_runs_wild_ends_with_the_rest_as_one_piece) {
  const std::string text = std::string(100, 'a') + "b";
  EXPECT_EQ(split(*Splitter::compile("(?:a|aa)+c|[^b]?b$(?<!b)"), text), Strings{text});
  const std::string nested = std::string(1 << 20, '(') + "x";
  EXPECT_EQ(split(*Splitter::compile(R"((\((?:[^()]|(?1))*\)))"), nested), Strings{nested});
}

TEST(Splitter, a_broken_pattern_is_an_error) {
  EXPECT_EQ(Splitter::compile("a(").error().message,
            "split pattern: missing closing parenthesis at 2 of 'a('");
  EXPECT_FALSE(Splitter::compile("\\C"));
  EXPECT_FALSE(Splitter::compile("\\"));
}

}  // namespace
}  // namespace rose
