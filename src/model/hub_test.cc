#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "base/file.h"
#include "model/loader.h"

namespace rose {
namespace {

namespace fs = std::filesystem;

class Hub : public ::testing::Test {
 protected:
  Hub()
      : home_(getenv("HOME") ? getenv("HOME") : ""),
        root_(strf("%s/rose_hub_%d", ::testing::TempDir().c_str(), getpid())) {
    fs::create_directories(root_);
    for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) unsetenv(name);
    setenv("HOME", (root_ / "home").c_str(), 1);
  }
  ~Hub() override {
    fs::remove_all(root_);
    setenv("HOME", home_.c_str(), 1);
  }

  void file(const fs::path& path, std::string_view content) {
    fs::create_directories((root_ / path).parent_path());
    ASSERT_TRUE(write_file(root_ / path, content));
  }
  std::string at(const char* path) { return root_ / path; }
  std::string found(const std::string& name) {
    const auto folder = resolve_model(name);
    return folder ? *folder : "error: " + folder.error().message;
  }

  std::string home_;
  fs::path root_;
};

TEST_F(Hub, a_folder_is_itself) {
  file("m/config.json", "{}");
  file("m/original/config.json", "{}");
  EXPECT_EQ(found(at("m")), at("m"));
  EXPECT_EQ(found(at("m/config.json")), at("m"));
}

TEST_F(Hub, a_folder_with_only_original_is_that) {
  file("m/original/config.json", "{}");
  EXPECT_EQ(found(at("m")), at("m/original"));
  EXPECT_EQ(found(at("m/original")), at("m/original"));
}

TEST_F(Hub, a_folder_without_a_model_is_named) {
  file("m/readme", "");
  EXPECT_EQ(found(at("m")),
            "error: " + at("m") + " has no config.json, nor has its folder original/");
}

TEST_F(Hub, a_name_leads_through_refs_main_to_a_snapshot) {
  file("home/.cache/huggingface/hub/models--openai--gpt-oss-20b/refs/main", "abc123\n");
  file("home/.cache/huggingface/hub/models--openai--gpt-oss-20b/snapshots/abc123/config.json",
       "{}");
  EXPECT_EQ(found("openai/gpt-oss-20b"),
            at("home/.cache/huggingface/hub/models--openai--gpt-oss-20b/snapshots/abc123"));
}

TEST_F(Hub, a_revision_is_a_ref_or_a_commit) {
  file("cache/models--o--m/refs/v1", "c1");
  file("cache/models--o--m/refs/refs/pr/3", "c3");
  for (const char* commit : {"c1", "c2", "c3"})
    file(fs::path("cache/models--o--m/snapshots") / commit / "config.json", "{}");
  setenv("HF_HUB_CACHE", at("cache").c_str(), 1);
  EXPECT_EQ(found("o/m@v1"), at("cache/models--o--m/snapshots/c1"));
  EXPECT_EQ(found("o/m@c2"), at("cache/models--o--m/snapshots/c2"));
  EXPECT_EQ(found("o/m@refs/pr/3"), at("cache/models--o--m/snapshots/c3"));
  EXPECT_NE(found("o/m").find("no revision 'main' of it (looked for " +
                              at("cache/models--o--m/snapshots/main")),
            std::string::npos);
  EXPECT_NE(found("o/m@v9").find("`hf download o/m --revision v9` gets it"), std::string::npos);
}

TEST_F(Hub, the_environment_says_where_in_the_librarys_order) {
  for (const char* place : {"a", "b/hub", "c/huggingface/hub"}) {
    file(fs::path(place) / "models--o--m/refs/main", "x");
    file(fs::path(place) / "models--o--m/snapshots/x/config.json", "{}");
  }
  setenv("XDG_CACHE_HOME", at("c").c_str(), 1);
  EXPECT_EQ(found("o/m"), at("c/huggingface/hub/models--o--m/snapshots/x"));
  setenv("HF_HOME", at("b").c_str(), 1);
  EXPECT_EQ(found("o/m"), at("b/hub/models--o--m/snapshots/x"));
  setenv("HF_HUB_CACHE", at("a").c_str(), 1);
  EXPECT_EQ(found("o/m"), at("a/models--o--m/snapshots/x"));
}

TEST_F(Hub, what_is_nowhere_says_where_it_looked_and_how_to_get_it) {
  EXPECT_EQ(
      found("openai/gpt-oss-20b"),
      "error: openai/gpt-oss-20b is neither a folder nor in the Hugging Face cache (looked for " +
          at("home/.cache/huggingface/hub/models--openai--gpt-oss-20b") +
          "); `hf download openai/gpt-oss-20b` gets it");
}

TEST_F(Hub, what_is_no_name_is_not_looked_for) {
  file("home/.cache/huggingface/hub/models--o--m/snapshots/x/config.json", "{}");
  file("home/.cache/huggingface/hub/models--o--m/refs/evil", "../../../..");
  for (const char* name : {"", "no-such-folder", "a/b/c", "/absent/folder", "../x", "o/m@",
                           "o/m@../x", "o/m@a//b", "o/m@/x", "a b/c"})
    EXPECT_NE(found(name).find("is neither a folder nor a name like"), std::string::npos)
        << found(name);
  EXPECT_NE(found("o/m@evil").find("no revision 'evil'"), std::string::npos) << found("o/m@evil");
}

}  // namespace
}  // namespace rose
