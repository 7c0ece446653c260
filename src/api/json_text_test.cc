#include "api/json_text.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace rose {
namespace {

std::string as_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonText, what_json_must_escape_is_escaped_and_nothing_else) {
  EXPECT_EQ(as_json(""), "\"\"");
  EXPECT_EQ(as_json("plain / text"), "\"plain / text\"");
  EXPECT_EQ(as_json("\"\\\n\r\t"), R"("\"\\\n\r\t")");
  EXPECT_EQ(as_json(std::string_view("\0\x1f", 2)), R"("\u0000\u001f")");
  EXPECT_EQ(as_json("é 😀 \x7f"), "\"é 😀 \x7f\"");
}

TEST(JsonText, every_character_comes_back) {
  for (int code = 0; code < 0x110000; code += code < 0x3000 ? 1 : 97) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    if (code < 0x80) {
      text = {char(code)};
    } else if (code < 0x800) {
      text = {char(0xC0 | code >> 6), char(0x80 | (code & 0x3F))};
    } else if (code < 0x10000) {
      text = {char(0xE0 | code >> 12), char(0x80 | (code >> 6 & 0x3F)), char(0x80 | (code & 0x3F))};
    } else {
      text = {char(0xF0 | code >> 18), char(0x80 | (code >> 12 & 0x3F)),
              char(0x80 | (code >> 6 & 0x3F)), char(0x80 | (code & 0x3F))};
    }
    const auto parsed = parse_json(as_json(text));
    ASSERT_TRUE(parsed) << code;
    ASSERT_EQ(parsed->get<std::string>(), text) << code;
  }
}

TEST(JsonText, bytes_that_are_no_utf8_become_replacement_characters) {
  const std::string bad[] = {"\x80",         "\xC0\xAF",     "\xC3",
                             "\xE2\x82",     "\xED\xA0\x80", "\xF4\x90\x80\x80",
                             "\xF0\x9F\x98", "\xFF\xFE",     "\xE0\x80\x80"};
  for (const std::string& bytes : bad) {
    const auto parsed = parse_json(as_json("a" + bytes + "z"));
    ASSERT_TRUE(parsed) << as_json(bytes);
    const std::string text = parsed->get<std::string>();
    EXPECT_TRUE(text.starts_with("a\xEF\xBF\xBD") && text.ends_with("\xEF\xBF\xBDz")) << text;
  }
}

}  // namespace
}  // namespace rose
