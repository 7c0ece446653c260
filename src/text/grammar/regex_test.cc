#include "text/grammar/regex.h"

#include <gtest/gtest.h>

#include "text/grammar/ebnf.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/json_rules.h"

namespace rose::grammar {
namespace {

using testing::Language;

Language of_regex(std::string_view pattern, Extent extent = Extent::whole,
                  Writing writing = Writing::plain) {
  Grammar grammar;
  const auto expr = regex(grammar, pattern, extent, writing);
  EXPECT_TRUE(expr) << expr.error().message;
  return Language(grammar, expr.value_or(grammar.nothing()));
}

struct Case {
  const char* pattern;
  std::vector<std::string> in, out;
};

TEST(Regex, matches_the_whole_text) {
  const Case cases[] = {
      {"abc", {"abc"}, {"", "ab", "abcd"}},
      {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
      {"^a+b*c?$", {"a", "aab", "abbc"}, {"", "b", "acc"}},
      {"(?:ab){2,3}", {"abab", "ababab"}, {"ab", "abababab", "aba"}},
      {"a{3}", {"aaa"}, {"aa", "aaaa"}},
      {"a{2,}", {"aa", "aaaaa"}, {"a"}},
      {"(a?){2,3}b", {"b", "ab", "aaab"}, {"aaaab"}},
      {"(a*)*b", {"b", "aaab"}, {"a"}},
      {"[a-c\\-x]+", {"abc-x"}, {"d", ""}},
      {"[^a-z]", {"A", "\xC3\xA9", "\xF0\x9F\x98\x80"}, {"a", "AB", "\xC3"}},
      {"\\d\\D\\w\\W\\s", {"1a_- ", "2xy!\t"}, {"11__ "}},
      {".", {"a", "\xE2\x82\xAC"}, {"\n", "", "\xED\xA0\x80"}},
      {"\\u00e9\\x41\\u{1F600}\\uD83D\\uDE00",
       {"\xC3\xA9"
        "A\xF0\x9F\x98\x80\xF0\x9F\x98\x80"},
       {}},
      {"[\\u0400-\\u04FF]", {"\xD0\x80", "\xD3\xBF"}, {"\xCF\xBF", "\xD4\x80"}},
      {"[\\u0000-\\u{10FFFF}]",
       {"\xEE\x80\x80", "\xF4\x8F\xBF\xBF"},
       {"\xED\xBF\xBF", "\xF4\x90\x80\x80"}},
      {"a{,2}", {"a{,2}"}, {"aa"}},
      {"(?<year>\\d{4})", {"2026"}, {"26"}},
      {"x*?y+?", {"xxy"}, {"x"}},
  };
  for (const Case& wanted : cases) {
    SCOPED_TRACE(wanted.pattern);
    Language language = of_regex(wanted.pattern);
    for (const std::string& text : wanted.in) EXPECT_TRUE(language.has(text)) << text;
    for (const std::string& text : wanted.out) EXPECT_FALSE(language.has(text)) << text;
  }
}

TEST(Regex, of_a_schema_may_occur_anywhere_and_is_escaped_as_json) {
  Language inside = of_regex("b", Extent::anywhere, Writing::json_string);
  EXPECT_TRUE(inside.has("abc"));
  EXPECT_TRUE(inside.has("\\nb"));
  EXPECT_FALSE(inside.has("a\\b"));  // \b is an escape, there is no letter b
  EXPECT_FALSE(inside.has("a"));
  Language first = of_regex("^b|c$", Extent::anywhere, Writing::json_string);
  EXPECT_TRUE(first.has("bx"));
  EXPECT_TRUE(first.has("xc"));
  EXPECT_FALSE(first.has("xbx"));
  Language quote = of_regex("^\"\\\\\n$", Extent::anywhere, Writing::json_string);
  EXPECT_TRUE(quote.has("\\\"\\\\\\n"));
  EXPECT_FALSE(quote.has("\"\\\n"));
}

TEST(Regex, refuses_what_is_not_regular_by_name) {
  const std::pair<const char*, const char*> cases[] = {
      {"(?=a)", "look-around"},
      {"(?<!a)b", "look-around"},
      {"(?i)a", "flag"},
      {"(a)\\1", "\\1 (a back reference)"},
      {"\\bword", "\\b (a word boundary)"},
      {"\\p{L}", "\\p (a Unicode property)"},
      {"a**", "a repetition of a repetition"},
      {"*a", "nothing to repeat"},
      {"(a", "not closed"},
      {"a)", "closes nothing"},
      {"[a", "not closed"},
      {"[]", "nothing in it"},
      {"[z-a]", "a range that is none"},
      {"a{3,2}", "at least 3 and at most 2"},
      {"a{1000000}", "more than 100000 repetitions"},
      {"a$b", "'$' is supported at the end only"},
      {"(^a)", "'^' is supported at the beginning"},
      {"\\", "nothing after it"},
      {"\\xZZ", "hexadecimal"},
      {"\xFF", "not UTF-8"},
      {"\\k", "\\k is not supported"}};
  for (const auto& [pattern, message] : cases) {
    Grammar grammar;
    const auto expr = regex(grammar, pattern, Extent::whole, Writing::plain);
    ASSERT_FALSE(expr) << pattern;
    EXPECT_NE(expr.error().message.find(message), std::string::npos)
        << pattern << ": " << expr.error().message;
  }
  Grammar grammar;
  EXPECT_FALSE(regex(grammar, std::string(100'000, '('), Extent::whole, Writing::plain));
}

Language of_ebnf(std::string_view text) {
  Grammar grammar;
  const auto expr = ebnf(grammar, text);
  EXPECT_TRUE(expr) << expr.error().message;
  return Language(grammar, expr.value_or(grammar.nothing()));
}

TEST(Ebnf, rules_call_each_other) {
  Language sums = of_ebnf(R"ebnf(
      # sums of numbers, in brackets
      root   ::= term ("+" term)*   # the whole
      term   ::= number | "(" root
                 ")"
      number ::= [0-9]{1,3}
  )ebnf");
  EXPECT_TRUE(sums.has("1+(22+333)+4"));
  EXPECT_TRUE(sums.has("((((1))))"));
  EXPECT_FALSE(sums.has("1+"));
  EXPECT_FALSE(sums.has("((1)"));
  EXPECT_FALSE(sums.has("1234"));
  Language first = of_ebnf("start ::= 'it''s' | \"\\x41\\n\\u00e9\" | [^a-y] . ");
  EXPECT_TRUE(first.has("its"));
  EXPECT_TRUE(first.has("A\n\xC3\xA9"));
  EXPECT_TRUE(first.has("z\n"));
  EXPECT_FALSE(first.has("ab"));
}

TEST(Ebnf, a_rule_that_begins_with_itself_ends) {
  Language left = of_ebnf("root ::= root \"+\" \"1\" | \"1\"");
  EXPECT_TRUE(left.has("1+1+1+1"));
  EXPECT_FALSE(left.has("1+"));
}

TEST(Ebnf, errors_say_where) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "without a rule"},
      {"root = \"a\"", "comes '::='"},
      {"root ::= other", "'other' is used"},
      {"root ::= \"a", "not closed"},
      {"root ::= (\"a\"", "not closed"},
      {"root ::= \"a\" root ::= \"b\"", "there twice"},
      {"?root ::= a", "wants a name"},
      {"root ::= {", "wanted a literal"}};
  for (const auto& [text, message] : cases) {
    Grammar grammar;
    const auto expr = ebnf(grammar, text);
    ASSERT_FALSE(expr) << text;
    EXPECT_NE(expr.error().message.find(message), std::string::npos)
        << text << ": " << expr.error().message;
  }
}

TEST(JsonNumbers, integers_between_are_all_and_no_others) {
  const std::pair<int, int> ranges[] = {{0, 0},     {0, 9},      {3, 250},   {-17, 5}, {-1200, -99},
                                        {100, 100}, {-1, 1},     {99, 1001}, {-9, 0},  {7, 3},
                                        {10, 19},   {995, 1205}, {-100, 100}};
  for (const auto& [low, high] : ranges) {
    Grammar grammar;
    Language language(grammar, integer_between(grammar, low, high));
    for (int i = -1300; i <= 1300; ++i)
      ASSERT_EQ(language.has(std::to_string(i)), i >= low && i <= high)
          << i << " in " << low << ".." << high;
    EXPECT_FALSE(language.has("007"));
    EXPECT_FALSE(language.has("-0"));
  }
}

TEST(JsonNumbers, numbers_between_bounds_and_up_to_open_ones) {
  const char* bounds[] = {"-12.5", "-1", "-0.25", "0", "0.5", "0.500", "1", "1.05", "12.75"};
  std::vector<std::string> numbers;
  for (const char* sign : {"", "-"})
    for (const char* whole : {"0", "1", "2", "11", "12", "13", "100"})
      for (const char* rest :
           {"",    ".0", ".04", ".05",  ".050",  ".06", ".2",  ".25", ".250", ".251", ".4",
            ".49", ".5", ".50", ".500", ".5001", ".51", ".74", ".75", ".76",  ".9"})
        numbers.push_back(std::string(sign) + whole + rest);
  for (const char* low : bounds)
    for (const char* high : bounds)
      for (const bool open : {false, true}) {
        const double least = std::stod(low), most = std::stod(high);
        Grammar grammar;
        Language language(grammar, number_between(grammar, Bound{low, open}, Bound{high, open}));
        for (const std::string& number : numbers) {
          const double x = std::stod(number);
          if (x == 0 && number[0] == '-') continue;  // never written
          EXPECT_EQ(language.has(number), open ? x > least && x < most : x >= least && x <= most)
              << number << " in " << low << " .. " << high << (open ? ", open" : "");
        }
      }
}

}  // namespace
}  // namespace rose::grammar
