// Any bytes come back from their tokens, and no user's text becomes a special one.
#include "text/tokenizer.h"

#include "base/check.h"
#include "fuzz/targets.h"
#include "fuzz/vocabularies.h"
#include "text/utf8.h"

namespace rose::fuzz {

namespace {

void there_and_back(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int> tokens = tokenizer.encode(text);
  ROSE_CHECK(tokenizer.decode(tokens) == text, "the text does not come back");
  ROSE_CHECK(tokens.size() <= text.size(), "%zu tokens of %zu bytes", tokens.size(), text.size());
  for (const int token : tokens)
    ROSE_CHECK(!tokenizer.is_special(token), "text became the special token %d", token);
  ROSE_CHECK(tokenizer.decode(tokenizer.encode_special(text)) == text,
             "the text does not come back where names of tokens count");
}

// However a stream of bytes is cut, the same whole characters come out.
void whole_characters(std::string_view text, size_t piece) {
  Utf8Stream whole, cut;
  std::string wanted = whole.push(text), joined;
  wanted += whole.finish();
  for (size_t at = 0; at < text.size(); at += piece) joined += cut.push(text.substr(at, piece));
  joined += cut.finish();
  ROSE_CHECK(joined == wanted, "in pieces of %zu bytes other text comes out", piece);
  ROSE_CHECK(valid_utf8_prefix(wanted) == wanted.size(), "what comes out is no UTF-8");
  if (valid_utf8_prefix(text) == text.size())
    ROSE_CHECK(wanted == text, "good text comes out changed");
}

}  // namespace

void tokenizer(std::string_view input) {
  Choices choices(input);
  const size_t piece = 1 + choices.below(7);
  there_and_back(demo_tokenizer(), choices.rest());
  there_and_back(full_tokenizer(), choices.rest());
  whole_characters(choices.rest(), piece);
}

}  // namespace rose::fuzz
