#include "cli/agreement.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rose {
namespace {

float log_of(double p) { return float(std::log(p)); }

TEST(Agreement, by_hand) {
  const float p[] = {log_of(0.5), log_of(0.25), log_of(0.25)};
  const float q[] = {log_of(0.25) + 3, log_of(0.5) + 3, log_of(0.25) + 3};  // a constant is nothing
  const Prediction found = compare_rows(p, q, 2);
  EXPECT_FALSE(found.same_top);
  EXPECT_NEAR(found.kl, 0.25 * std::log(0.5) + 0.5 * std::log(2.0), 1e-6);
  EXPECT_NEAR(found.loss, std::log(4.0), 1e-6);
  EXPECT_NEAR(found.loss_against, std::log(4.0), 1e-6);
  // The direction matters: what q holds likely and p does not is what counts.
  const float sure[] = {0, -50, -50}, unsure[] = {0, 0, 0};
  EXPECT_NEAR(compare_rows(unsure, sure, 0).kl, std::log(3.0), 1e-6);
  EXPECT_GT(compare_rows(sure, unsure, 0).kl, 30);
}

TEST(Agreement, a_row_agrees_with_itself) {
  std::vector<float> row;
  for (int i = 0; i < 1000; ++i) row.push_back(float(i * 7919 % 1000) / 50);
  const Prediction found = compare_rows(row, row, 5);
  EXPECT_TRUE(found.same_top);
  EXPECT_EQ(found.kl, 0);
  EXPECT_EQ(found.loss, found.loss_against);
}

TEST(Agreement, of_many_tokens) {
  Agreement all;
  EXPECT_EQ(all.kl_at(0.99), 0);
  for (int i = 0; i < 101; ++i) all.tokens.push_back({i % 4 != 0, double(100 - i), 1, 2});
  EXPECT_NEAR(all.same_top(), 75.0 / 101, 1e-12);
  EXPECT_NEAR(all.kl(), 50, 1e-12);
  EXPECT_EQ(all.kl_at(0.99), 99);
  EXPECT_EQ(all.kl_at(1), 100);
  EXPECT_EQ(all.loss(), 1);
  EXPECT_EQ(all.loss_against(), 2);
}

}  // namespace
}  // namespace rose
