#include "api/stop_scanner.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

// What comes out when `text` comes in pieces of `piece` bytes; "…|stop" where one matched.
std::string scan(const std::vector<std::string>& stops, const std::string& text, size_t piece,
                 bool include = false) {
  StopScanner scanner(stops, include);
  std::string out;
  for (size_t at = 0; at < text.size(); at += piece) out += scanner.push(text.substr(at, piece));
  out += scanner.finish();
  return scanner.matched() ? out + "|" + *scanner.matched() : out;
}

struct Case {
  std::vector<std::string> stops;
  std::string text, want;
};

TEST(StopScanner, the_result_does_not_depend_on_how_the_text_is_cut) {
  const Case cases[] = {
      {{"END"}, "one END two", "one |END"},   {{"END"}, "one EN", "one EN"},
      {{"END"}, "EENEND", "EEN|END"},         {{"aab"}, "aaaab", "aa|aab"},
      {{"abcd", "bc"}, "abcd", "a|bc"},   // "bc" ends first
      {{"bc", "abc"}, "xabcx", "x|abc"},  // both end together: the longer began first
      {{"\n\n", "."}, "a\nb.\n\n", "a\nb|."}, {{"é"}, "caféine", "caf|é"},
      {{"song"}, "no match", "no match"},
  };
  for (const Case& c : cases)
    for (size_t piece = 1; piece <= c.text.size(); ++piece)
      EXPECT_EQ(scan(c.stops, c.text, piece), c.want) << c.text << " in pieces of " << piece;
}

TEST(StopScanner, only_what_may_begin_a_stop_string_is_held_back) {
  StopScanner scanner({"<stop>"}, false);
  EXPECT_EQ(scanner.push("text <st"), "text ");
  EXPECT_EQ(scanner.push("art"), "<start");
  EXPECT_EQ(scanner.push("<stop> gone"), "");
  EXPECT_EQ(scanner.push("more"), "");
  EXPECT_EQ(scanner.finish(), "");
}

TEST(StopScanner, the_string_can_stay_in_the_text) {
  for (size_t piece : {1, 3, 20}) EXPECT_EQ(scan({"END"}, "a END b", piece, true), "a END|END");
}

}  // namespace
}  // namespace rose
