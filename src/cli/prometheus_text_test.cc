#include "cli/prometheus_text.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

TEST(Scrape, reads_samples_labels_and_escapes) {
  const Scrape scrape(
      "# HELP a What.\n# TYPE a counter\na{x=\"1\",y=\"q\\\"z\"} 3\na{x=\"2\",y=\"r\"} 4.5\n"
      "b 1e3\nb:c{} 7 1700000000\nbroken{x=\"\nnothing\n");
  EXPECT_EQ(scrape.sum("a"), 7.5);
  EXPECT_EQ(scrape.label("a", "y"), "q\"z");
  EXPECT_EQ(scrape.by("a", "x"), (std::map<std::string, double>{{"1", 3}, {"2", 4.5}}));
  EXPECT_EQ(scrape.sum("b"), 1000);
  EXPECT_EQ(scrape.sum("b:c"), 7);
  EXPECT_FALSE(scrape.has("broken"));
  EXPECT_EQ(scrape.sum("none"), 0);
}

TEST(Scrape, quantiles_are_of_what_came_between) {
  const Scrape before(
      "h_bucket{le=\"1\"} 100\nh_bucket{le=\"2\"} 100\nh_bucket{le=\"+Inf\"} 100\n");
  const Scrape after("h_bucket{le=\"1\"} 110\nh_bucket{le=\"2\"} 120\nh_bucket{le=\"+Inf\"} 120\n");
  EXPECT_DOUBLE_EQ(quantile_between(before, after, "h", .25), .5);
  EXPECT_DOUBLE_EQ(quantile_between(before, after, "h", .75), 1.5);
  EXPECT_EQ(quantile_between(after, after, "h", .5), 0);
  EXPECT_EQ(quantile_between(before, after, "none", .5), 0);
  const Scrape beyond(
      "h_bucket{le=\"1\"} 100\nh_bucket{le=\"2\"} 100\nh_bucket{le=\"+Inf\"} 150\n");
  EXPECT_EQ(quantile_between(before, beyond, "h", .5), 2)
      << "above the last bound nothing is known";
}

}  // namespace
}  // namespace rose
