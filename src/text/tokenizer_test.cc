#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <climits>
#include <fstream>
#include <map>
#include <random>
#include <thread>
#include <unordered_map>

#include "base/check.h"
#include "base/json.h"
#include "text/tokenize_json.h"

namespace rose {
namespace {

const std::string kRoot = ROSE_SOURCE_DIR;

// What is read once serves all tests.
const Tokenizer& shared_tokenizer(const std::string& file) {
  static std::map<std::string, Tokenizer> loaded;
  if (const auto found = loaded.find(file); found != loaded.end()) return found->second;
  Result<Tokenizer> tokenizer = Tokenizer::load(kRoot + "/" + file);
  ROSE_CHECK(tokenizer, "%s", tokenizer.error().message.c_str());
  return loaded.emplace(file, std::move(*tokenizer)).first->second;
}
const Tokenizer& from_json() { return shared_tokenizer("tests/data/gpt-oss-tokenizer.json.gz"); }
const Tokenizer& from_ranks() { return shared_tokenizer("tests/data/o200k_base.tiktoken"); }
const Tokenizer& demo() { return shared_tokenizer("models/demo"); }

std::vector<Json> golden(std::string_view kind) {
  std::ifstream file(kRoot + "/tests/golden/harmony.jsonl");
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);)
    if (Json json = *parse_json(line); json["kind"] == kind) lines.push_back(std::move(json));
  return lines;
}

std::string bytes_of(const Json& numbers) {
  std::string bytes;
  for (const Json& number : numbers) bytes += char(number.get<int>());
  return bytes;
}

// Text that meets every branch of the splitter and of the merges: words, cases, marks, digits,
// spaces, line ends, symbols, and now and then a byte that is no UTF-8.
std::string random_text(std::mt19937& random, size_t parts, bool valid) {
  static const std::vector<std::string> kParts = {"a",
                                                  "b",
                                                  "e",
                                                  "t",
                                                  "th",
                                                  "ing",
                                                  "A",
                                                  "B",
                                                  "HTTP",
                                                  "é",
                                                  "ß",
                                                  "ſ",
                                                  "İ",
                                                  "K",
                                                  "ǅ",
                                                  "ʰ",
                                                  "中",
                                                  "文",
                                                  "ที่",
                                                  "नमस्ते",
                                                  "עִ",
                                                  "\u0301",
                                                  "\u0903",
                                                  "\uFE0F",
                                                  "0",
                                                  "1",
                                                  "12",
                                                  "٣",
                                                  "Ⅷ",
                                                  "½",
                                                  " ",
                                                  "  ",
                                                  "\t",
                                                  "\n",
                                                  "\r",
                                                  "\r\n",
                                                  "\u00A0",
                                                  "\u2003",
                                                  "\u3000",
                                                  "\u0085",
                                                  "\u180E",
                                                  "\u200B",
                                                  "\u2028",
                                                  ".",
                                                  ",",
                                                  "'",
                                                  "'s",
                                                  "'LL",
                                                  "'ſ",
                                                  "/",
                                                  "//",
                                                  "(",
                                                  ");",
                                                  "<|",
                                                  "|>",
                                                  "<|end|>",
                                                  "_",
                                                  "-",
                                                  "😀",
                                                  "❤️",
                                                  "👩‍👩‍👧",
                                                  "🇳🇴",
                                                  "aaaa",
                                                  "abab",
                                                  "====",
                                                  "----"};
  std::string text;
  for (size_t i = 0; i < parts; ++i) {
    const uint32_t pick = random();
    if (!valid && pick % 9 == 0) {
      text += char(random());
    } else {
      text += kParts[pick / 9 % kParts.size()];
    }
  }
  return text;
}

TEST(Tokenizer, goldens_of_the_reference_library) {
  for (const Tokenizer* tokenizer : {&from_json(), &from_ranks()}) {
    SCOPED_TRACE(tokenizer == &from_json() ? "tokenizer.json" : "tiktoken");
    for (const Json& line : golden("encode"))
      EXPECT_EQ(Json(tokenizer->encode(line["text"].get<std::string>())), line["tokens"]) << line;
    for (const Json& line : golden("encode_special"))
      EXPECT_EQ(Json(tokenizer->encode_special(line["text"].get<std::string>())), line["tokens"])
          << line;
    for (const Json& line : golden("decode")) {
      const auto tokens = line["tokens"].get<std::vector<int>>();
      const std::string want = line.contains("bytes") ? bytes_of(line["bytes"]) : "";
      EXPECT_EQ(tokenizer->decode(tokens), want) << line;
    }
  }
  EXPECT_EQ(golden("encode").size(), 352u);
  EXPECT_EQ(golden("encode_special").size(), 6u);
  EXPECT_EQ(golden("decode").size(), 15u);
}

// Prose, markup and code in many scripts, white space, and random assigned characters, encoded by
// another implementation: the npm package tiktoken 1.0.22.
TEST(Tokenizer, agrees_with_another_implementation) {
  std::ifstream file(kRoot + "/tests/golden/tokenizer.jsonl");
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    const Json json = *parse_json(line);
    const std::string text = json["text"].get<std::string>();
    ASSERT_EQ(Json(from_ranks().encode(text)), json["tokens"]) << line;
    ASSERT_EQ(Json(from_json().encode(text)), json["tokens"]) << line;
  }
  EXPECT_GT(lines, 1000);
}

TEST(Tokenizer, goldens_through_json_lines) {
  for (const Tokenizer* tokenizer : {&from_json(), &from_ranks()}) {
    for (const Json& line : golden("encode"))
      EXPECT_EQ(tokenize_json(*tokenizer, {{"text", line["text"]}}),
                (Json{{"tokens", line["tokens"]}}));
    for (const Json& line : golden("encode_special"))
      EXPECT_EQ(tokenize_json(*tokenizer, {{"text", line["text"]}, {"special", true}}),
                (Json{{"tokens", line["tokens"]}}));
    for (const Json& line : golden("decode")) {
      const Result<Json> out = tokenize_json(*tokenizer, {{"tokens", line["tokens"]}});
      if (line.contains("error")) {
        ASSERT_FALSE(out) << line;
        EXPECT_EQ(out.error().message, line["error"]);
      } else if (out->contains("bytes")) {
        EXPECT_EQ((*out)["bytes"], line["bytes"]);
        EXPECT_NE((*out)["text"].get<std::string>().find("\uFFFD"), std::string::npos);
      } else {
        EXPECT_EQ((*out)["text"], bytes_of(line["bytes"]));
      }
    }
  }
}

TEST(Tokenizer, json_lines_refuse_what_they_cannot_read) {
  const auto error = [](const char* line) {
    const Result<Json> out = tokenize_json(demo(), *parse_json(line));
    return out ? dump_json(*out) : out.error().message;
  };
  EXPECT_EQ(error("[]"), "not a JSON object");
  EXPECT_EQ(error("{}"), "there is neither 'text' nor 'tokens' in it");
  EXPECT_EQ(error(R"({"text":1})"), "'text' is no string");
  EXPECT_EQ(error(R"({"text":"a","special":1})"), "'special' is neither true nor false");
  EXPECT_EQ(error(R"({"tokens":"1"})"), "'tokens' is no array");
  EXPECT_EQ(error(R"({"tokens":[1,"a"]})"), "'tokens' has \"a\", no whole number");
  EXPECT_EQ(error(R"({"tokens":[1.5]})"), "'tokens' has 1.5, no whole number");
  EXPECT_EQ(error(R"({"tokens":[-1]})"), "Invalid token for decoding: -1");
  EXPECT_EQ(error(R"({"tokens":[4294967295]})"), "Invalid token for decoding: 4294967295");
  EXPECT_EQ(error(R"({"tokens":[18446744073709551615]})"),
            "Invalid token for decoding: 18446744073709551615");
  EXPECT_EQ(error(R"({"tokens":[]})"), R"({"text":""})");
}

// Both files describe one tokenizer; the ranks know nothing of a list of merges.
TEST(Tokenizer, ranks_and_merges_agree) {
  EXPECT_EQ(from_json().vocab(), 201089);
  ASSERT_EQ(from_json().vocab(), from_ranks().vocab());
  for (int id = -1; id <= from_json().vocab(); ++id) {
    ASSERT_EQ(from_json().bytes(id), from_ranks().bytes(id)) << id;
    ASSERT_EQ(from_json().is_special(id), from_ranks().is_special(id)) << id;
  }
  // Every ordinary token, as text, is that token: as the ranks have it, and by the merges.
  for (int id = 0; id < 199998; ++id) {
    const std::string_view text = from_json().bytes(id);
    ASSERT_EQ(from_json().encode(text), from_ranks().encode(text)) << id << " '" << text << "'";
  }
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_text(random, 1 + random() % 60, random() % 2);
    ASSERT_EQ(from_json().encode(text), from_ranks().encode(text)) << Json(text);
  }
}

TEST(Tokenizer, decode_of_encode_is_the_text_whatever_it_is) {
  std::mt19937 random(2);
  for (const Tokenizer* tokenizer : {&demo(), &from_json()})
    for (int i = 0; i < 2000; ++i) {
      std::string text = random_text(random, random() % 80, i % 2);
      if (i % 10 == 0)
        for (char& c : text) c = char(random());
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
      ASSERT_EQ(tokenizer->decode(tokenizer->encode_special(text)), text);
    }
}

TEST(Tokenizer, names_of_special_tokens_are_text_unless_allowed) {
  for (const Tokenizer* tokenizer : {&demo(), &from_json(), &from_ranks()}) {
    int specials = 0;
    for (int id = 0; id < tokenizer->vocab(); ++id) {
      if (!tokenizer->is_special(id)) continue;
      ++specials;
      const std::string name(tokenizer->bytes(id));
      EXPECT_EQ(tokenizer->special(name), id);
      EXPECT_EQ(tokenizer->encode_special(name), std::vector<int>{id});
      EXPECT_EQ(tokenizer->encode_special(name + name), (std::vector<int>{id, id}));
      for (const int token : tokenizer->encode("x" + name + name))
        ASSERT_FALSE(tokenizer->is_special(token)) << name;
    }
    EXPECT_EQ(specials, tokenizer == &demo() ? 21 : 1091);
    EXPECT_EQ(tokenizer->special("a"), std::nullopt);
    EXPECT_EQ(tokenizer->special("<|start"), std::nullopt);
    EXPECT_EQ(tokenizer->special(""), std::nullopt);
  }
  EXPECT_EQ(from_json().special("<|start|>"), 200006);
  EXPECT_EQ(demo().special("<|start|>"), 2035);
}

// The definition of byte-pair encoding by ranks, word for word: quadratic, and nothing shared with
// what is tested but the tokens.
std::vector<int> slow_bpe(const std::unordered_map<std::string, int>& ranks,
                          std::string_view text) {
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  for (;;) {
    int lowest = INT_MAX;
    size_t place = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      if (const auto rank = ranks.find(parts[i] + parts[i + 1]); rank != ranks.end())
        if (rank->second < lowest) lowest = rank->second, place = i;
    if (lowest == INT_MAX) break;
    parts[place] += parts[place + 1];
    parts.erase(parts.begin() + ptrdiff_t(place) + 1);
  }
  std::vector<int> tokens;
  for (const std::string& part : parts) tokens.push_back(ranks.at(part));
  return tokens;
}

// Pieces around the length where another way through the merges begins.
TEST(Tokenizer, merges_are_those_of_the_definition) {
  std::unordered_map<std::string, int> ranks;
  for (int id = 0; id < 199998; ++id) ranks.emplace(from_ranks().bytes(id), id);
  std::mt19937 random(3);
  for (int i = 0; i < 600; ++i) {
    std::string word;  // lower case letters, few or many of them: one piece
    const size_t size = 1 + random() % 150;
    while (word.size() < size) word += char('a' + random() % (i % 25 + 1));
    const std::vector<int> want = slow_bpe(ranks, word);
    ASSERT_EQ(from_ranks().encode(word), want) << word;
    ASSERT_EQ(from_json().encode(word), want) << word;
  }
}

TEST(Tokenizer, a_megabyte_of_one_thing) {
  for (const char* unit : {"a", " ", "😀", "1", "<|", "\xFF", "\xFF x"}) {
    std::string text;
    while (text.size() < size_t(1) << 20) text += unit;
    EXPECT_EQ(from_json().decode(from_json().encode_special(text)), text);
  }
}

TEST(Tokenizer, threads_get_what_one_gets) {
  const Tokenizer fresh = *Tokenizer::load(kRoot + "/models/demo");
  std::mt19937 random(4);
  std::vector<std::string> texts;
  std::vector<std::vector<int>> want;
  for (int i = 0; i < 200; ++i) {
    texts.push_back(random_text(random, 50, i % 2));
    want.push_back(demo().encode(texts.back()));
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (size_t i = 0; i < texts.size(); ++i) wrong += fresh.encode(texts[i]) != want[i];
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace rose
