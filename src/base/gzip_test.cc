#include "base/gzip.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace rose {
namespace {

// `printf 'hello hello hello' | gzip -n`
const std::string kPacked(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x57\xc8\x40"
    "\x90\x00\x80\x88\xf9\xe5\x11\x00\x00\x00",
    28);

TEST(Gzip, unpacks) {
  EXPECT_TRUE(is_gzip(kPacked));
  EXPECT_FALSE(is_gzip("{}"));
  EXPECT_EQ(gunzip(kPacked), "hello hello hello");
}

TEST(Gzip, damaged_files_are_errors) {
  for (size_t size = 0; size < kPacked.size(); ++size)
    EXPECT_EQ(gunzip(std::string_view(kPacked).substr(0, size)).error().message,
              "unpacking gzip: the file is cut short")
        << size;
  for (size_t at = 0; at < kPacked.size(); ++at) {
    if (at >= 4 && at <= 9) continue;  // time, flags of no weight and system
    std::string flipped = kPacked;
    flipped[at] ^= char(0xE7);
    EXPECT_FALSE(gunzip(flipped)) << at;
  }
  EXPECT_EQ(gunzip(kPacked + "x").error().message, "unpacking gzip: 1 bytes follow its end");
}

TEST(Gzip, more_than_the_limit_is_an_error) {
  EXPECT_TRUE(gunzip(kPacked, 17));
  EXPECT_EQ(gunzip(kPacked, 16).error().message,
            "unpacking gzip: more than 16 bytes come out of it");
}

}  // namespace
}  // namespace rose
