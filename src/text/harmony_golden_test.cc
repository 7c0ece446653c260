// Against what the reference library did: tests/golden/harmony.jsonl, and harmony_more.jsonl, which
// has only texts where ids were not recorded.
#include <gtest/gtest.h>

#include "text/harmony_json.h"
#include "text/harmony_parser.h"
#include "text/harmony_testing.h"

namespace rose::harmony::testing {
namespace {

std::vector<Json> all(const std::string& kind) {
  std::vector<Json> lines = goldens("harmony.jsonl", kind);
  if (kind != "stream")
    for (Json& line : goldens("harmony_more.jsonl", kind)) lines.push_back(std::move(line));
  return lines;
}

TEST(HarmonyGolden, renders_as_the_reference) {
  for (const Json& line : all("render")) {
    SCOPED_TRACE(line["id"]);
    const Json got = *render_json(tokenizer(), line);
    for (const char* key : {"text", "tokens", "error"}) {
      if (!line.contains(key)) continue;
      EXPECT_EQ(got.value(key, Json()), line[key]) << key;
    }
  }
}

TEST(HarmonyGolden, parses_as_the_reference) {
  for (Json& line : all("parse")) {
    SCOPED_TRACE(line["id"]);
    if (!line.contains("tokens")) line["tokens"] = ids(line["input_text"].get<std::string>());
    const Json got = parse_json_line(tokenizer(), line, false);
    EXPECT_EQ(got["messages"], line["messages"]);
    EXPECT_EQ(got["error"], line["error"]);
  }
}

// Token by token: what is known of the message, and which text became readable.
TEST(HarmonyGolden, streams_as_the_reference) {
  constexpr const char* kStates[] = {"ExpectStart", "Header", "Content"};
  const auto json = [](const std::optional<std::string>& text) {
    return text ? Json(*text) : Json();
  };
  for (const Json& line : all("stream")) {
    SCOPED_TRACE(line["id"]);
    std::optional<Role> role;
    if (!line["role"].is_null()) role = role_named(line["role"].get<std::string>());
    Parser parser(tokenizer(), specials(), line["strict"] ? Policy::strict : Policy::lenient, role);
    for (const Json& step : line["steps"]) {
      SCOPED_TRACE(step.dump());
      std::vector<Part> parts;
      ASSERT_TRUE(parser.push(step["token"], parts));
      EXPECT_EQ(kStates[int(parser.state())], step["state"]);
      EXPECT_EQ(parser.role() ? Json(role_name(*parser.role())) : Json(), step["role"]);
      const Header open = parser.open() ? *parser.open() : Header();
      EXPECT_EQ(json(open.channel), step["channel"]);
      EXPECT_EQ(json(open.recipient), step["recipient"]);
      EXPECT_EQ(json(open.content_type), step["content_type"]);
      Json delta;
      for (const Part& part : parts)
        if (part.kind == Part::Kind::text && parser.open()) delta = part.text;
      EXPECT_EQ(delta, step["delta"]);
    }
    const Json got = parse_json_line(tokenizer(), line, false);
    EXPECT_EQ(got["messages"], line["messages"]);
    EXPECT_EQ(got["error"], line["error"]);
  }
}

// Well-formed output means the same to both parsers; where the reference gives up, tolerance does not.
TEST(HarmonyGolden, tolerance_changes_nothing_well_formed_and_never_fails) {
  for (const char* id :
       {"parse/P1", "parse/P2", "parse/P2b no space", "parse/P3 role recipient", "parse/P3b",
        "parse/P4 tool", "parse/P9b bare recipient + type", "parse/P11b eos content",
        "parse/P21 newline in header", "parse/P25 two calls", "parse/P26 full transcript",
        "parse/P27 recipient in role and constrain", "parse/P28 analysis tool call",
        "parse/P30 developer message", "parse/P31 content whitespace kept",
        "parse/P36 constrain glued to recipient in role",
        "parse/P40 constrain spelled with ordinary tokens", "parse/U1"}) {
    SCOPED_TRACE(id);
    bool found = false;
    for (const Json& line : all("parse")) {
      if (line["id"] != id) continue;
      found = true;
      EXPECT_EQ(parse_json_line(tokenizer(), line, true)["messages"], line["messages"]);
    }
    EXPECT_TRUE(found);
  }
  for (Json& line : all("parse")) {
    if (!line.contains("tokens")) line["tokens"] = ids(line["input_text"].get<std::string>());
    EXPECT_EQ(parse_json_line(tokenizer(), line, true)["error"], Json()) << line["id"];
  }
}

}  // namespace
}  // namespace rose::harmony::testing
