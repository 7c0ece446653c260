// *.tiktoken files. There is no list of merges: a pair merges if its bytes together are a token, and
// that token's rank, which is its id, says how soon.
#include <array>

#include "base/check.h"
#include "text/o200k.h"
#include "text/vocabulary_file.h"

namespace rose {

namespace {
// Every cut of every token is looked at, so time grows with the square of this.
constexpr size_t kLongestToken = 1024;

constexpr std::array<int8_t, 256> base64_values() {
  std::array<int8_t, 256> values;
  values.fill(-1);
  const std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < letters.size(); ++i) values[uint8_t(letters[i])] = int8_t(i);
  return values;
}

// False if `text` is no padded base64.
bool decode_base64(std::string_view text, std::string& out) {
  static constexpr std::array<int8_t, 256> kValues = base64_values();
  out.clear();
  if (text.empty() || text.size() % 4 != 0) return false;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  text.remove_suffix(padding);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = kValues[uint8_t(c)];
    if (value < 0) return false;
    bits = bits << 6 | uint32_t(value);
    count += 6;
    if (count >= 8) out += char(bits >> (count -= 8));
  }
  return (bits & ((1u << count) - 1)) == 0;
}

// A whole number of at most seven digits.
int parse_rank(std::string_view digits) {
  if (digits.empty() || digits.size() > 7) return -1;
  int rank = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return -1;
    rank = rank * 10 + (c - '0');
  }
  return rank;
}

Status read_line(std::string_view line, std::string& token, Vocabulary& vocabulary) {
  const size_t space = line.find(' ');
  if (space == line.npos) return fail(ErrorKind::corrupt, "no space between token and rank");
  const int rank = parse_rank(line.substr(space + 1));
  if (!decode_base64(line.substr(0, space), token))
    return fail(ErrorKind::corrupt, "the token is no base64");
  if (rank < 0) return fail(ErrorKind::corrupt, "the rank is no whole number");
  if (token.size() > kLongestToken)
    return fail(ErrorKind::unsupported,
                strf("the token has %zu bytes, more than %zu", token.size(), kLongestToken));
  return vocabulary.add(rank, token);
}

MergeTable merges_of(const Vocabulary& vocabulary) {
  MergeTable merges;
  merges.reserve(size_t(vocabulary.tokens()) * 5 / 2);  // o200k has 2.23 a token
  for (int id = 0; id < vocabulary.size(); ++id) {
    const std::string_view token = vocabulary.bytes(id);
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const int left = vocabulary.find(token.substr(0, cut));
      if (left < 0) continue;
      const int right = vocabulary.find(token.substr(cut));
      if (right >= 0) merges.add(left, right, {.rank = id, .token = id});
    }
  }
  return merges;
}
}  // namespace

Result<VocabularyFile> read_tiktoken(std::string_view text) {
  VocabularyFile file;
  file.vocabulary.reserve(o200k::kLastToken + 1, text.size());
  std::string token;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, end);
    if (content.ends_with('\r')) content.remove_suffix(1);
    if (!content.empty())
      TRY(within(read_line(content, token, file.vocabulary), strf("line %d", line)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  // Other vocabularies come in such files too, and split by other patterns: their text would become
  // the wrong tokens without a sign of it.
  if (file.vocabulary.tokens() != o200k::kOrdinaryTokens ||
      file.vocabulary.size() != o200k::kOrdinaryTokens)
    return fail(ErrorKind::unsupported, strf("%d ranks up to %d, where o200k_base has %d up to %d",
                                             file.vocabulary.tokens(), file.vocabulary.size() - 1,
                                             o200k::kOrdinaryTokens, o200k::kOrdinaryTokens - 1));

  file.merges = merges_of(file.vocabulary);
  file.whole = WholePiece::token;
  file.pattern = o200k::kPattern;
  for (int id = o200k::kOrdinaryTokens; id <= o200k::kLastToken; ++id) {
    file.added.push_back({id, o200k::special_name(id)});
    TRY(file.vocabulary.add_hidden(id, file.added.back().name));
  }
  return file;
}

}  // namespace rose
