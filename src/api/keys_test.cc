#include "api/keys.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "api/access.h"
#include "base/check.h"
#include "base/sha256.h"

namespace rose {
namespace {

class KeysTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }
  void write(const std::string& text) { std::ofstream(file_) << text; }
  static std::string entry(const std::string& name, const std::string& key,
                           const std::string& more = "") {
    return strf(R"({"name":"%s","sha256":"%s"%s})", name.c_str(), sha256_hex(key).c_str(),
                more.c_str());
  }
  std::string refusal(const std::string& text) {
    write(text);
    const auto keys = Keys::open({.file = file_});
    return keys ? "" : keys.error().message;
  }

  const std::string file_ = ::testing::TempDir() + "/rose_keys_test.json";
};

TEST(Sha256, is_sha256) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_NE(random_bytes(16), random_bytes(16));
}

TEST_F(KeysTest, without_any_nobody_needs_one) {
  const auto keys = Keys::open({}).value();
  EXPECT_FALSE(keys->required());
  EXPECT_TRUE(find_access(*keys, {}, kAdmin).tenant);
}

TEST_F(KeysTest, a_key_in_clear_may_do_all_and_one_of_the_file_what_it_says) {
  write("{\"keys\":[" + entry("web", "w-key", R"(,"tokens_per_minute":5,"share":2.5)") + "," +
        entry("ops", "o-key", R"(,"scopes":["metrics","admin"])") + "]}");
  const auto keys = Keys::open({.api_key = {"clear"}, .file = file_, .limits = {.concurrent = 9}});
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_TRUE((*keys)->required());
  EXPECT_EQ((*keys)->find("clear")->scopes(), unsigned(kAllScopes));
  const auto web = (*keys)->find("w-key");
  ASSERT_TRUE(web);
  EXPECT_EQ(web->name(), "web");
  EXPECT_EQ(web->scopes(), unsigned(kInfer));
  EXPECT_EQ(web->limits().tokens_per_minute, 5);
  EXPECT_EQ(web->limits().share, 2.5);
  EXPECT_EQ(web->limits().concurrent, 9) << "what the options say, unless the file says it";
  EXPECT_EQ((*keys)->find("o-key")->scopes(), unsigned(kMetrics | kAdmin));
  for (const char* wrong : {"", "w-ke", "w-key ", "W-KEY"}) EXPECT_FALSE((*keys)->find(wrong));
}

TEST_F(KeysTest, a_reload_takes_effect_and_keeps_what_was_used) {
  write("{\"keys\":[" + entry("a", "one") + "," + entry("b", "two") + "]}");
  const auto keys = Keys::open({.file = file_}).value();
  keys->find("one")->request({});
  write("{\"keys\":[" + entry("a", "three", R"(,"concurrent":1)") + "]}");
  ASSERT_TRUE(keys->reload());
  EXPECT_FALSE(keys->find("one"));
  EXPECT_FALSE(keys->find("two"));
  ASSERT_TRUE(keys->find("three"));
  EXPECT_EQ(keys->find("three")->usage().requests, 1);
  EXPECT_EQ(keys->find("three")->limits().concurrent, 1);
  write("{\"keys\":[");
  EXPECT_FALSE(keys->reload());
  EXPECT_TRUE(keys->find("three")) << "a broken file changes nothing";
  write("{\"keys\":[]}");
  ASSERT_TRUE(keys->reload());
  EXPECT_TRUE(keys->required());
  EXPECT_FALSE(keys->find("three"));
}

TEST_F(KeysTest, what_is_wrong_with_a_file_is_said) {
  const std::string good = entry("a", "k");
  const std::pair<std::string, const char*> cases[] = {
      {"[]", "wanted {\"keys\""},
      {"{\"keys\":[{}]}", "keys[0].name: wanted 1 to 64"},
      {"{\"keys\":[{\"name\":\"a\",\"sha256\":\"12\"}]}", "keys[0].sha256: wanted the 64 digits"},
      {"{\"keys\":[" + good + "," + good + "]}", "keys[1]: its name or key is there twice"},
      {"{\"keys\":[" + entry("a", "k", R"(,"scopes":["root"])") + "]}", "\"root\" is no scope"},
      {"{\"keys\":[" + entry("a", "k", R"(,"concurrent":-1)") + "]}", "-1, wanted a whole number"},
      {"{\"keys\":[" + entry("a", "k", R"(,"share":0)") + "]}", "0, wanted a number above 0"},
      {"{\"keys\":[" + entry("a", "k", R"(,"limit":1)") + "]}", "keys[0].limit: no such field"},
  };
  for (const auto& [text, message] : cases)
    EXPECT_NE(refusal(text).find(message), std::string::npos) << refusal(text);
  EXPECT_NE(Keys::open({.file = "/nowhere.json"}).error().message.find("/nowhere.json"),
            std::string::npos);
}

TEST_F(KeysTest, a_key_is_found_in_every_place_clients_put_it) {
  const auto presented = [](const std::string& name, const std::string& value) {
    HttpRequest request;
    request.headers = {{name, value}};
    return presented_key(request);
  };
  EXPECT_EQ(presented("authorization", "Bearer abc"), "abc");
  EXPECT_EQ(presented("authorization", "bearer  abc"), "abc");
  EXPECT_EQ(presented("x-api-key", "abc"), "abc");
  EXPECT_EQ(presented("authorization", "Basic YW55OmFiYw=="), "abc");  // any:abc
  EXPECT_EQ(presented("authorization", "Basic YW55OmFiYzE="), "abc1");
  for (const char* wrong :
       {"", "Bearer", "Basic", "Basic ====", "Basic !", "Token abc", "Bearerabc"})
    EXPECT_EQ(presented("authorization", wrong), "") << wrong;
}

TEST_F(KeysTest, new_keys_are_long_and_differ) {
  EXPECT_EQ(new_key().size(), 48u);
  EXPECT_NE(new_key(), new_key());
}

}  // namespace
}  // namespace rose
