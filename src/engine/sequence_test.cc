#include "engine/sequence.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

Request request_of(std::vector<int> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  return request;
}

TEST(Sequence, the_limit_is_what_was_asked_or_what_the_context_holds) {
  Request request = request_of({1, 2, 3});
  EXPECT_EQ(make_sequence(request, 1, 0, 0, 10)->max_length, 10);
  request.max_tokens = 5;
  EXPECT_EQ(make_sequence(request, 1, 0, 0, 10)->max_length, 8);
  request.max_tokens = 100;
  EXPECT_EQ(make_sequence(request, 1, 0, 0, 10)->max_length, 10);
}

TEST(Sequence, stop_tokens_are_banned_until_there_are_min_tokens) {
  Request request = request_of({1, 2, 3});
  request.stop_tokens = {7, 8};
  request.min_tokens = 2;
  const auto sequence = make_sequence(request, 1, 0, 0, 100);
  EXPECT_EQ(sequence->sample_row(3).banned.size(), 2u);  // the first token generated
  EXPECT_EQ(sequence->sample_row(4).banned.size(), 2u);
  EXPECT_EQ(sequence->sample_row(5).banned.size(), 0u);
}

TEST(Sequence, a_row_says_how_the_token_at_its_position_is_drawn) {
  Request request = request_of({1, 2, 3});
  request.sampling.temperature = 0.5f;
  request.sampling.top_k = -1;
  request.sampling.top_p = 0.25f;
  request.sampling.min_p = 0.125f;
  request.sampling.logit_bias = {{4, 2}};
  request.sampling.logprobs = 3;
  const auto sequence = make_sequence(request, 1, 0, 99, 100);
  const SampleRow row = sequence->sample_row(3);
  EXPECT_EQ(row.temperature, 0.5f);
  EXPECT_EQ(row.top_k, 0);
  EXPECT_EQ(row.top_p, 0.25f);
  EXPECT_EQ(row.min_p, 0.125f);
  EXPECT_EQ(row.seed, 99u);
  EXPECT_EQ(row.position, 3u);
  EXPECT_EQ(row.logprobs, 3);
  ASSERT_EQ(row.bias.size(), 1u);
  EXPECT_TRUE(row.counts.empty());  // nothing asks for them
}

TEST(Sequence, penalties_count_the_prompt_and_what_was_generated_apart) {
  Request request = request_of({1, 2, 2});
  request.sampling.frequency_penalty = 0.5f;
  const auto sequence = make_sequence(request, 1, 0, 0, 100);
  for (const int token : {2, 5, 5}) sequence->append(token);
  const SampleRow row = sequence->sample_row(6);
  EXPECT_EQ(row.frequency_penalty, 0.5f);
  struct Want {
    int token, generated;
    bool in_prompt;
  };
  const Want wants[] = {{1, 0, true}, {2, 1, true}, {5, 2, false}};
  ASSERT_EQ(row.counts.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(row.counts[size_t(i)].token, wants[i].token);
    EXPECT_EQ(row.counts[size_t(i)].generated, wants[i].generated);
    EXPECT_EQ(row.counts[size_t(i)].in_prompt, wants[i].in_prompt);
  }
}

TEST(Sequence, the_stop_token_counts_even_as_the_last_that_fits) {
  Request request = request_of({1, 2, 3});
  request.stop_tokens = {7};
  request.max_tokens = 2;
  const auto sequence = make_sequence(request, 1, 0, 0, 100);
  EXPECT_EQ(sequence->append(5), Finish::none);
  EXPECT_EQ(sequence->append(7), Finish::stop);
}

TEST(Sequence, an_opening_is_given_and_the_rest_is_drawn) {
  Request request = request_of({1, 2});
  request.opening = {7, 5};
  request.max_tokens = 4;
  request.stop_tokens = {7, 9};
  request.sampling.temperature = 0.5f;
  request.sampling.logprobs = 2;
  request.sampling.logit_bias = {{3, 1}};
  const auto sequence = make_sequence(request, 1, 0, 0, 100);
  for (const int token : {7, 5}) {
    const SampleRow row = sequence->sample_row(int(sequence->tokens.size()));
    EXPECT_EQ(row.temperature, 0);
    EXPECT_EQ(row.logprobs, 2);
    ASSERT_EQ(row.bias.size(), 1u);
    EXPECT_EQ(row.bias[0].token, token);
    EXPECT_EQ(sequence->append(token), Finish::none) << "7 stops where it is drawn";
  }
  EXPECT_EQ(sequence->sample_row(4).bias[0].token, 3);
  EXPECT_EQ(sequence->sample_row(4).temperature, 0.5f);
  EXPECT_EQ(sequence->append(4), Finish::none);
  EXPECT_EQ(sequence->append(4), Finish::length);

  request.max_tokens = 1;
  EXPECT_NE(check_request(request, 100, 10).error().message.find("the opening alone has 2"),
            std::string::npos);
  request.max_tokens = 0;
  EXPECT_TRUE(check_request(request, 100, 10));
  EXPECT_FALSE(check_request(request, 4, 10));
  request.opening = {10};
  EXPECT_FALSE(check_request(request, 100, 10));
}

}  // namespace
}  // namespace rose
