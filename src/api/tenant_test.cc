#include "api/tenant.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

using std::chrono::seconds;

const Time kStart = Time(seconds(1'000'000));

TEST(Tenant, without_limits_nothing_is_refused) {
  Tenant tenant("a", 1);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(tenant.request(kStart));
    EXPECT_FALSE(tenant.begin(kStart, 1 << 20));
  }
  EXPECT_TRUE(tenant.headers(kStart).empty());
}

TEST(Tenant, requests_a_minute_come_back_evenly) {
  Tenant tenant("a", 1);
  tenant.configure(kInfer, {.requests_per_minute = 6});
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(tenant.request(kStart)) << i;
  const auto refused = tenant.request(kStart);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->retry_after_s, 10);
  EXPECT_TRUE(tenant.request(kStart + seconds(9)));
  EXPECT_FALSE(tenant.request(kStart + seconds(10)));
  EXPECT_TRUE(tenant.request(kStart + seconds(10)));
  for (int i = 0; i < 6; ++i)
    EXPECT_FALSE(tenant.request(kStart + seconds(1000))) << "no more than a minute's";
  EXPECT_TRUE(tenant.request(kStart + seconds(1000)));
  EXPECT_EQ(tenant.usage().refused, 4);
}

TEST(Tenant, tokens_are_paid_when_they_are_known) {
  Tenant tenant("a", 1);
  tenant.configure(kInfer, {.tokens_per_minute = 600});
  EXPECT_FALSE(tenant.begin(kStart, 100));
  tenant.end(kStart, 100, 800);  // 300 more than there were
  const auto refused = tenant.begin(kStart, 100);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->retry_after_s, 40);
  EXPECT_FALSE(tenant.begin(kStart + seconds(40), 100));
  EXPECT_FALSE(tenant.begin(kStart + seconds(400), 5000)) << "a large prompt needs a full bucket";
  EXPECT_TRUE(tenant.begin(kStart + seconds(400), 1));
  const Tenant::Usage usage = tenant.usage();
  EXPECT_EQ(usage.prompt_tokens, 100);
  EXPECT_EQ(usage.generated_tokens, 800);
}

TEST(Tenant, places_are_given_back) {
  Tenant tenant("a", 1);
  tenant.configure(kInfer, {.concurrent = 2});
  EXPECT_FALSE(tenant.begin(kStart, 1));
  EXPECT_FALSE(tenant.begin(kStart, 1));
  EXPECT_TRUE(tenant.begin(kStart, 1));
  tenant.end(kStart, 1, 1);
  EXPECT_FALSE(tenant.begin(kStart, 1));
}

TEST(Tenant, a_day_has_its_tokens) {
  Tenant tenant("a", 1);
  tenant.configure(kInfer, {.tokens_per_day = 50});
  EXPECT_FALSE(tenant.begin(kStart, 40));
  tenant.end(kStart, 40, 20);
  EXPECT_TRUE(tenant.begin(kStart, 1));
  EXPECT_FALSE(tenant.begin(kStart + seconds(24 * 60 * 60), 1));
}

TEST(Tenant, headers_say_what_is_left) {
  Tenant tenant("a", 1);
  tenant.configure(kInfer, {.requests_per_minute = 60, .tokens_per_minute = 1000});
  tenant.request(kStart);
  tenant.begin(kStart, 250);
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"x-ratelimit-limit-requests", "60"},     {"x-ratelimit-remaining-requests", "59"},
      {"x-ratelimit-reset-requests", "1.000s"}, {"x-ratelimit-limit-tokens", "1000"},
      {"x-ratelimit-remaining-tokens", "750"},  {"x-ratelimit-reset-tokens", "15.000s"}};
  EXPECT_EQ(tenant.headers(kStart), expected);
}

}  // namespace
}  // namespace rose
