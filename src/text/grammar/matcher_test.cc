#include "text/grammar/matcher.h"

#include <gtest/gtest.h>

#include "text/grammar/ebnf.h"
#include "text/grammar/grammar_testing.h"
#include "text/grammar/regex.h"

namespace rose::grammar {
namespace {

using testing::allows;
using testing::constrain;
using testing::constrain_json;
using testing::demo_trie;

Json parsed(const char* text) { return *parse_json(text); }

std::shared_ptr<Constraint> made(Result<std::shared_ptr<Constraint>> constraint) {
  EXPECT_TRUE(constraint) << constraint.error().message;
  return *constraint;
}

// A mask says of every token exactly what trying it says.
void expect_exact_masks(const std::shared_ptr<Constraint>& constraint, uint64_t seed, int steps) {
  Matcher matcher(constraint);
  for (int step = 0; step < steps && !matcher.must_end(); ++step) {
    const Mask mask = matcher.mask();
    std::vector<int> allowed;
    for (int token = 0; token < constraint->trie().vocab(); ++token) {
      Matcher copy = matcher;
      ASSERT_EQ(allows(mask, token), copy.accept(token)) << "token " << token << ", step " << step;
      if (allows(mask, token)) allowed.push_back(token);
    }
    ASSERT_FALSE(allowed.empty());
    ASSERT_TRUE(matcher.accept(allowed[random_bits(seed, uint64_t(step)) % allowed.size()]));
  }
}

TEST(Matcher, masks_say_what_may_be_accepted) {
  const char* schemas[] = {
      R"({"type":"object","properties":{"a":{"type":"string","maxLength":30},"b":{"$ref":"#"}}})",
      R"({"type":"string","minLength":20,"maxLength":40})",
      R"({"type":"array","items":{"type":["integer","null"]},"minItems":3,"maxItems":20})",
      R"({})"};
  uint64_t seed = 0;
  for (const char* schema : schemas)
    expect_exact_masks(made(constrain_json(parsed(schema), demo_trie())), ++seed, 40);
}

TEST(Matcher, a_copy_goes_its_own_way) {
  Grammar grammar;
  const auto constraint =
      made(constrain(grammar, regex(grammar, "ab|ac", Extent::whole, Writing::plain), demo_trie()));
  const auto token = [](const char* text) { return testing::demo_tokenizer().encode(text)[0]; };
  Matcher one(constraint);
  ASSERT_TRUE(one.accept(token("a")));
  Matcher other = one;
  EXPECT_FALSE(one.accept(token("a")));
  EXPECT_TRUE(one.accept(token("b")));
  EXPECT_TRUE(one.must_end());
  EXPECT_FALSE(other.may_end());
  EXPECT_TRUE(other.accept(token("c")));
  EXPECT_TRUE(other.may_end());
}

TEST(Matcher, counts_far_away_share_their_masks) {
  const auto constraint = made(
      constrain_json(parsed(R"({"type":"string","minLength":500,"maxLength":900})"), demo_trie()));
  Matcher matcher(constraint);
  const auto& tokenizer = testing::demo_tokenizer();
  ASSERT_TRUE(matcher.accept(tokenizer.encode("\"")[0]));
  const int letter = tokenizer.encode("a")[0], quote = tokenizer.encode("\"")[0];
  std::set<const void*> masks;
  for (int i = 0; i < 400; ++i) {
    const Mask mask = matcher.mask();
    masks.insert(mask.get());
    EXPECT_FALSE(allows(mask, quote));
    ASSERT_TRUE(matcher.accept(letter));
  }
  EXPECT_EQ(masks.size(), 1u);
  for (int i = 400; i < 900; ++i) {
    EXPECT_EQ(allows(matcher.mask(), quote), i >= 500) << i;
    ASSERT_TRUE(matcher.accept(letter));
  }
  EXPECT_FALSE(allows(matcher.mask(), letter));
  EXPECT_TRUE(matcher.accept(quote));
  EXPECT_TRUE(matcher.must_end());
}

// More states than are kept: they are dropped on the way, and found again.
TEST(Matcher, goes_on_after_its_states_were_dropped) {
  const auto constraint =
      made(constrain_json(parsed(R"({"type":"string","minLength":300,"maxLength":300})"),
                          demo_trie(), {.states = 120, .masks = 3}));
  const auto& tokenizer = testing::demo_tokenizer();
  const int quote = tokenizer.encode("\"")[0], letter = tokenizer.encode("x")[0];
  Matcher matcher(constraint), begun(constraint);
  ASSERT_TRUE(matcher.accept(quote));
  ASSERT_TRUE(begun.accept(quote));
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(allows(matcher.mask(), letter), true) << i;
    ASSERT_TRUE(matcher.accept(letter)) << i;
  }
  EXPECT_FALSE(allows(matcher.mask(), letter));
  EXPECT_FALSE(matcher.accept(letter));
  EXPECT_TRUE(matcher.accept(quote));
  EXPECT_TRUE(matcher.must_end());
  EXPECT_FALSE(begun.may_end());
  EXPECT_TRUE(begun.accept(letter));
}

// Patterns whose states explode cost no more than they may: their masks are then single bytes, and
// still right.
TEST(Matcher, hostile_patterns_are_bounded) {
  for (const char* pattern :
       {"(a|b)*a(a|b){300}", "((a|b)*c){0,90}(a|b|c)*a.{200}", "(x+x+)+y", "(.*a){60}"}) {
    Grammar grammar;
    const auto constraint =
        made(constrain(grammar, regex(grammar, pattern, Extent::whole, Writing::plain), demo_trie(),
                       {.mask_work = 200, .total_work = 20'000}));
    const testing::Walk walk = testing::walk(Matcher(constraint), 5, 60);
    EXPECT_FALSE(walk.tokens.empty()) << pattern;
  }
}

TEST(Matcher, special_tokens_are_symbols_of_their_own) {
  const Tokenizer& tokenizer = testing::demo_tokenizer();
  const int end = *tokenizer.special("<|end|>");
  Grammar grammar;
  const Expr any = grammar.star(grammar.bytes(0x00, 0xFF));
  const auto constraint =
      made(constrain(grammar, grammar.sequence({any, grammar.special(end)}), demo_trie()));
  Matcher matcher(constraint);
  const Mask mask = matcher.mask();
  for (int token = 0; token < tokenizer.vocab(); ++token)
    EXPECT_EQ(allows(mask, token),
              token == end || (!tokenizer.is_special(token) && !tokenizer.bytes(token).empty()))
        << token;
  for (const int token : tokenizer.encode("<|end|>")) ASSERT_TRUE(matcher.accept(token));
  EXPECT_FALSE(matcher.may_end());
  ASSERT_TRUE(matcher.accept(end));
  EXPECT_TRUE(matcher.must_end());
}

}  // namespace
}  // namespace rose::grammar
