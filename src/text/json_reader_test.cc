#include "text/json_reader.h"

#include <gtest/gtest.h>

#include <vector>

namespace rose {
namespace {

// Reads an array of anything: what it holds as it is written, or the error.
std::vector<std::string> elements(std::string_view text) {
  JsonReader reader(text);
  std::vector<std::string> all;
  reader.begin('[');
  while (reader.more(']')) all.emplace_back(reader.raw());
  reader.end();
  if (reader.failed()) return {reader.status().error().message};
  return all;
}
using Strings = std::vector<std::string>;

std::string string_of(std::string_view text) {
  JsonReader reader(text);
  std::string value(reader.string());
  reader.end();
  return reader.failed() ? reader.status().error().message : value;
}

TEST(JsonReader, takes_values_out_as_they_are_written) {
  EXPECT_EQ(elements("[]"), Strings{});
  EXPECT_EQ(elements(" [ 1 ,\"a,]\\\"\", {\"b\":[1,{}]} ] "),
            (Strings{"1 ", "\"a,]\\\"\"", "{\"b\":[1,{}]} "}));
  EXPECT_EQ(elements(R"(["\\",2])"), (Strings{R"("\\")", "2"}));
}

TEST(JsonReader, says_what_is_wrong_and_where) {
  EXPECT_EQ(elements(""), Strings{"JSON: the text ends where an array should be (byte 0)"});
  EXPECT_EQ(elements("{}"), Strings{"JSON: found '{' where an array should be (byte 0)"});
  EXPECT_EQ(elements("[1 2}"), Strings{"JSON: found '}' where ',' or ']' should be (byte 4)"});
  EXPECT_EQ(elements("[1"), Strings{"JSON: the text ends where ',' or ']' should be (byte 2)"});
  EXPECT_EQ(elements("[[1]"), Strings{"JSON: the text ends where ',' or ']' should be (byte 4)"});
  EXPECT_EQ(elements("[{"),
            Strings{"JSON: the text ends where the end of a value should be (byte 2)"});
  EXPECT_EQ(elements("[\"a\\\"]"),
            Strings{"JSON: the text ends where the end of a string should be (byte 6)"});
  EXPECT_EQ(elements("[]x"),
            Strings{"JSON: found 'x' where the end of the text should be (byte 2)"});
  EXPECT_EQ(elements("[]\x01"),
            Strings{"JSON: found byte 0x01 where the end of the text should be (byte 2)"});
  // In a part of a text, places are those of the text.
  const std::string_view whole = "12345x";
  JsonReader part(whole.substr(5), whole);
  part.begin('{');
  EXPECT_EQ(part.status().error().message, "JSON: found 'x' where an object should be (byte 5)");
}

TEST(JsonReader, strings_are_unescaped) {
  EXPECT_EQ(string_of(R"("plain é")"), "plain é");
  EXPECT_EQ(string_of(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(string_of(R"("\u0041\u00e9\u4E2D\ud83d\ude00!")"), "Aé中😀!");
  for (const char* broken : {R"("\x")", R"("\u12")", R"("\u12g4")", R"("\ud83d")", R"("\ud83dx")",
                             R"("\ud83d\u0041")", R"("\ude00")"})
    EXPECT_NE(string_of(broken).find("a string has a broken escape"), std::string::npos) << broken;
  EXPECT_EQ(string_of(R"("\)"), "JSON: a string has a broken escape (byte 2)");
  EXPECT_EQ(string_of(R"("a\n)"),
            "JSON: the text ends where the end of a string should be (byte 4)");
}

TEST(JsonReader, whole_numbers_alone_are_integers) {
  const auto integer = [](std::string_view text) {
    JsonReader reader(text);
    const int value = reader.integer();
    reader.end();
    return reader.failed() ? -1 : value;
  };
  EXPECT_EQ(integer(" 0 "), 0);
  EXPECT_EQ(integer("2147483647"), 2147483647);
  for (const char* wrong : {"", "x", "-1", "2147483648", "99999999999999999999999", "1.5", "1e3"})
    EXPECT_EQ(integer(wrong), -1) << wrong;
}

}  // namespace
}  // namespace rose
