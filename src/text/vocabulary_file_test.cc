// Files that vocabularies come in: what they say, and what is wrong with them.
#include "text/vocabulary_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace rose {
namespace {

namespace fs = std::filesystem;
const std::string kSource = ROSE_SOURCE_DIR;

// A file of its own for one test, gone afterwards.
class Scratch {
 public:
  explicit Scratch(std::string_view content, const std::string& name = "tokenizer.json") {
    fs::create_directories(folder_);
    std::ofstream(file_ = folder_ + "/" + name, std::ios::binary) << content;
  }
  ~Scratch() { fs::remove_all(folder_); }
  const std::string& file() const { return file_; }
  const std::string& folder() const { return folder_; }

 private:
  const std::string folder_ =
      fs::temp_directory_path() / strf("rose_tokenizer_test_%d", int(::getpid()));
  std::string file_;
};

std::string load_error(std::string_view content, const std::string& name = "tokenizer.json") {
  const Scratch scratch(content, name);
  const Result<Tokenizer> tokenizer = Tokenizer::load(scratch.file());
  return tokenizer ? "loaded" : tokenizer.error().message;
}

TEST(VocabularyFile, a_folder_or_a_file) {
  const std::string text = *read_file(kSource + "/models/demo/tokenizer.json");
  const Scratch scratch(text);
  EXPECT_EQ(Tokenizer::load(scratch.folder())->vocab(), 2048);
  EXPECT_EQ(Tokenizer::load(scratch.file())->vocab(), 2048);

  fs::remove(scratch.file());
  const auto error = Tokenizer::load(scratch.folder()).error();
  EXPECT_EQ(error.kind, ErrorKind::not_found);
  EXPECT_EQ(error.message, "tokenizer: " + scratch.folder() +
                               " has no tokenizer.json, tokenizer.json.gz or (one) *.tiktoken");
  EXPECT_EQ(Tokenizer::load(scratch.file()).error().kind, ErrorKind::not_found);
}

// A small tokenizer.json, with holes to fill: the 256 bytes and what else the vocabulary has.
struct Small {
  std::string vocabulary = "", merges = "[]", model = "", added = "[]", top = "";
  std::string pattern = R"(\\s+|\\S+)";

  std::string text() const {
    const Json demo = *parse_json(*read_file(kSource + "/models/demo/tokenizer.json"));
    std::string bytes;
    for (const auto& [token, id] : demo["model"]["vocab"].items())
      if (id < 256) bytes += (bytes.empty() ? "" : ",") + Json(token).dump() + ":" + id.dump();
    return R"({"added_tokens":)" + added + top +
           R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split",)"
           R"("pattern":{"Regex":")" +
           pattern +
           R"("},"behavior":"Isolated","invert":false},)"
           R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},)"
           R"("model":{"type":"BPE",)" +
           model + R"("vocab":{)" + bytes + vocabulary + R"(},"merges":)" + merges + "}}";
  }
  Tokenizer load() const {
    const Scratch scratch(text());
    return *Tokenizer::load(scratch.file());
  }
  std::string error() const { return load_error(text()); }
};

std::vector<std::string> show(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> tokens;
  for (const int token : tokenizer.encode(text)) tokens.emplace_back(tokenizer.bytes(token));
  return tokens;
}
using Strings = std::vector<std::string>;

// Lowest rank first, the leftmost among equals, whole pieces only where merges lead to them.
TEST(VocabularyFile, merges_go_by_rank) {
  Small small;
  small.vocabulary = R"(,"bc":256,"ab":257,"abc":258,"aa":259,"xyz":260)";
  small.merges = R"([["b","c"],"a b",["a","bc"],["a","a"]])";
  EXPECT_EQ(show(small.load(), "abc"), (Strings{"abc"}));
  EXPECT_EQ(show(small.load(), "abd"), (Strings{"ab", "d"}));
  EXPECT_EQ(show(small.load(), "aaaaa"), (Strings{"aa", "aa", "a"}));
  EXPECT_EQ(show(small.load(), "xyz"), (Strings{"x", "y", "z"}));  // in no merge
  small.merges = R"([["a","b"],["b","c"],["a","bc"]])";
  EXPECT_EQ(show(small.load(), "abc"), (Strings{"ab", "c"}));
  small.model = R"("ignore_merges":true,)";
  EXPECT_EQ(show(small.load(), "abc"), (Strings{"abc"}));
  EXPECT_EQ(show(small.load(), "xyz"), (Strings{"xyz"}));
}

TEST(VocabularyFile, the_pattern_is_data) {
  Small small;
  small.vocabulary = R"(,"ab":256)";
  small.merges = R"(["a b"])";
  small.pattern = "a";  // what it does not match is a piece as well
  EXPECT_EQ(show(small.load(), "abab"), (Strings{"a", "b", "a", "b"}));
  small.pattern = R"(\\S+)";
  EXPECT_EQ(show(small.load(), "abab"), (Strings{"ab", "ab"}));
  EXPECT_EQ(show(small.load(),
                 "ab\xFF"
                 "ab"),
            (Strings{"ab", "\xFF", "ab"}));
  small.pattern = "(";
  EXPECT_NE(small.error().find("split pattern: missing closing parenthesis"), std::string::npos)
      << small.error();
}

TEST(VocabularyFile, added_tokens_that_are_not_special_are_found_in_any_text) {
  Small small;
  small.added = R"([{"id":300,"content":"<tool>"},{"id":301,"content":"<tool>s"},)"
                R"({"id":302,"content":"<|s|>","special":true}])";
  const Tokenizer tokenizer = small.load();
  EXPECT_EQ(show(tokenizer, "a<tool><tool>sb"), (Strings{"a", "<tool>", "<tool>s", "b"}));
  EXPECT_EQ(tokenizer.special("<tool>"), std::nullopt);
  EXPECT_FALSE(tokenizer.is_special(300));
  EXPECT_EQ(tokenizer.encode("<|s|>").size(), 5u);
  EXPECT_EQ(tokenizer.encode_special("<|s|>"), std::vector<int>{302});
}

// Listed in the vocabulary as well, it is still none that ordinary text can become.
TEST(VocabularyFile, a_special_token_in_the_vocabulary_stays_hidden) {
  Small small;
  small.vocabulary = R"(,"<|s|>":256)";
  small.model = R"("ignore_merges":true,)";
  small.added = R"([{"id":256,"content":"<|s|>","special":true}])";
  EXPECT_EQ(small.load().encode("<|s|>").size(), 5u);
  EXPECT_EQ(small.load().encode_special("<|s|>"), std::vector<int>{256});
}

TEST(VocabularyFile, a_wrong_file_gives_one_clear_line) {
  // Up to the place, which one case below looks at.
  const auto ends = [](std::string error, const std::string& want) {
    if (const size_t place = error.find(" (byte "); place != error.npos) error.resize(place);
    EXPECT_TRUE(error.ends_with(": " + want)) << error << "\n  wanted: " << want;
    EXPECT_TRUE(error.starts_with("tokenizer /")) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  };
  ends(load_error(""), "the file is empty");
  ends(load_error("{}"), "there are no model.vocab and model.merges in it");
  ends(load_error("{"), "JSON: the text ends where a string should be");
  ends(load_error("IQ== 0\n!!!! 1\n", "x.tiktoken"), "line 2: the token is no base64");
  ends(load_error("IQ== 0\nIg== x\n", "x.tiktoken"), "line 2: the rank is no whole number");
  ends(load_error("IQ== 0\nIQ== 1\n", "x.tiktoken"), "line 2: tokens 0 and 1 have the same text");
  ends(load_error("IQ== 0\n", "x.tiktoken"),
       "1 ranks up to 0, where o200k_base has 199998 up to 199997");
  ends(load_error("\x1f\x8b\x08"), "unpacking gzip: the file is cut short");
  const std::string packed = *read_file(kSource + "/tests/data/gpt-oss-tokenizer.json.gz");
  ends(load_error(packed.substr(0, 100000)), "unpacking gzip: the file is cut short");

  const auto error = [](Small small) { return small.error(); };
  const Small twice = {.vocabulary = R"(,"ab":5)"};  // the place is behind what is wrong
  const size_t place = twice.text().find(twice.vocabulary) + twice.vocabulary.size();
  EXPECT_TRUE(twice.error().ends_with(strf("(byte %zu)", place))) << twice.error();
  ends(error({.vocabulary = R"(,"ab":5)"}), "model.vocab: token id 5 comes twice");
  ends(error({.vocabulary = R"(,"ab":-5)"}),
       "model.vocab: JSON: found '-' where a whole number from 0 to 2147483647 should be");
  ends(error({.vocabulary = R"(,"ab":5000000)"}),
       "model.vocab: token id 5000000 is outside 0 to 4194303");
  ends(error({.vocabulary = R"(,"a b":256)"}),
       "model.vocab: token 256 is not spelled in the byte-level alphabet");
  ends(error({.merges = R"([["a","b"]])"}),
       "model.merges: merge 0 is of or into a token that the vocabulary lacks");
  ends(error({.merges = R"(["ab"])"}),
       R"(model.merges: wanted two byte-level tokens, as "a b" or ["a", "b"])");
  ends(error({.model = R"("byte_fallback":true,)"}),
       "model.byte_fallback: found true, wanted byte-level tokens");
  ends(error({.model = R"("dropout":0.1,)"}), "model.dropout: found 0.1, wanted none");
  ends(error({.top = R"(,"normalizer":{"type":"NFC"})"}),
       R"(normalizer: wanted none, found {"type":"NFC"})");
  ends(error({.added = R"([{"id":300,"content":"x","lstrip":true}])"}),
       R"(added_tokens: 'lstrip' is set in {"id":300,"content":"x","lstrip":true})");
  ends(error({.added = R"([{"id":300,"content":"x"},{"id":301,"content":"x"}])"}),
       "added token 'x' comes twice");
  ends(error({.added = R"([{"id":300,"content":"x"},{"id":300,"content":"y"}])"}),
       "added_tokens: token id 300 comes twice");

  std::string text = Small().text();
  text.replace(text.find("\"!\":0,"), 6, "");
  ends(load_error(text), "the vocabulary has no token for byte 0x21");
  text = Small().text();
  text.replace(text.find("Isolated"), 8, "Removed");
  EXPECT_NE(load_error(text).find("pre_tokenizer: wanted a Sequence"), std::string::npos);
}

// Fixed seeds: cuts, flipped bytes, doubled and lost stretches. Whatever comes of it, it is an error
// or a tokenizer that works.
TEST(VocabularyFile, a_damaged_file_never_crashes) {
  const std::string whole = *read_file(kSource + "/models/demo/tokenizer.json");
  const std::string small = Small{.vocabulary = R"(,"ab":256)", .merges = R"(["a b"])"}.text();
  int loaded = 0, refused = 0;
  for (int seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    std::string text = seed % 2 == 0 ? whole : small;
    const size_t at = random() % text.size();
    switch (random() % 5) {
      case 0: text.resize(at); break;
      case 1: text[at] = char(random()); break;
      case 2: text.erase(at, 1 + random() % 50); break;
      case 3: text.insert(at, text.substr(random() % text.size(), random() % 50)); break;
      default:
        for (int i = 0; i < 5; ++i) text[random() % text.size()] = "{}[]\",:\\0e."[random() % 11];
    }
    const Scratch scratch(text);
    const Result<Tokenizer> tokenizer = Tokenizer::load(scratch.file());
    if (tokenizer) {
      ++loaded;
      const std::string input = "ab <|end|> Hello \xFF 123\n";
      EXPECT_EQ(tokenizer->decode(tokenizer->encode_special(input)), input) << seed;
    } else {
      ++refused;
      EXPECT_FALSE(tokenizer.error().message.empty());
    }
  }
  EXPECT_GT(loaded, 10);
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace rose
