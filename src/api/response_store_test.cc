#include "api/response_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/check.h"
#include "base/json.h"

namespace rose {
namespace {

std::unique_ptr<ResponseStore> open(const StoreOptions& options = {}) {
  auto store = ResponseStore::open(options);
  EXPECT_TRUE(store) << store.error().message;
  return std::move(*store);
}

StoredResponse response(const std::string& id, const std::string& previous = "",
                        size_t bytes = 10) {
  return {.id = id,
          .created = 1000,
          .previous = previous,
          .owner = "ann",
          .response = R"({"id":")" + id + R"(","pad":")" + std::string(bytes, 'x') + "\"}",
          .input_items = "[]"};
}

std::string fresh_file(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/" + name;
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path + end);
  return path;
}

TEST(ResponseStore, gives_back_what_it_was_given_to_its_owner_only) {
  const auto store = open();
  ASSERT_TRUE(store->put(response("a"), 1000));
  ASSERT_TRUE(store->put(response("b", "a"), 1000));
  const auto found = *store->find("b", "ann");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->previous, "a");
  EXPECT_EQ(found->response, response("b").response);
  EXPECT_FALSE(*store->find("b", "bob"));
  EXPECT_FALSE(*store->remove("b", "bob"));

  const auto chain = *store->chain("b", "ann");
  ASSERT_EQ(chain.size(), 2u);
  EXPECT_EQ(chain[0].id, "a");
  EXPECT_TRUE(*store->remove("a", "ann"));
  EXPECT_FALSE(*store->remove("a", "ann"));
  EXPECT_EQ(store->chain("b", "ann").error().message, "response 'a' is not stored here any more");
  EXPECT_EQ(store->chain("c", "ann").error().message, "response 'c' is not stored here");
}

TEST(ResponseStore, items_are_found_by_their_ids_and_go_with_their_response) {
  const std::string path = fresh_file("items.db");
  StoredResponse stored = response("a");
  stored.input_items = R"([{"id":"in","n":1},{"id":"same","n":2},"no item",{"n":3}])";
  stored.response = R"({"id":"a","output":[{"id":"out","text":"caf\u00e9","n":1.50},{"id":"rs"}]})";
  {
    const auto store = open({.path = path});
    StoredResponse running = stored;
    running.response = R"({"id":"a","output":[]})";
    running.running = true;
    ASSERT_TRUE(store->put(running, 1000));
    EXPECT_EQ(*store->item("in", "ann"), R"({"id":"in","n":1})");
    EXPECT_FALSE(*store->item("out", "ann"));
    ASSERT_TRUE(store->put(stored, 1000));
    StoredResponse later = response("b");
    later.input_items = R"([{"id":"same","n":9}])";
    ASSERT_TRUE(store->put(later, 1000));
  }
  const auto store = open({.path = path});
  EXPECT_EQ(*store->item("out", "ann"), R"({"id":"out","text":"caf\u00e9","n":1.50})");
  EXPECT_EQ(*store->item("same", "ann"), R"({"id":"same","n":9})");
  EXPECT_FALSE(*store->item("out", "bob"));
  EXPECT_TRUE(*store->remove("a", "ann"));
  EXPECT_FALSE(*store->item("out", "ann"));
  EXPECT_FALSE(*store->item("in", "ann"));
  EXPECT_TRUE(*store->item("same", "ann"));
  Database database = std::move(*Database::open(path));
  int64_t left = 0;
  ASSERT_TRUE(database.run("SELECT COUNT(*) FROM items", {},
                           [&](const Database::Row& row) { left = row.integer(0); }));
  EXPECT_EQ(left, 1);
}

TEST(ResponseStore, a_file_of_the_version_before_is_taken_over) {
  const std::string path = fresh_file("old.db");
  StoredResponse stored = response("a");
  stored.input_items = R"([{"id":"in"}])";
  ASSERT_TRUE(open({.path = path})->put(stored, 1000));
  {
    Database database = std::move(*Database::open(path));
    for (const char* part : {"DROP TRIGGER add_items", "DROP TRIGGER forget_items",
                             "DROP TABLE items", "PRAGMA user_version = 1"})
      ASSERT_TRUE(database.run(part)) << part;
  }
  const auto store = open({.path = path});
  EXPECT_EQ(*store->item("in", "ann"), R"({"id":"in"})");
  EXPECT_EQ((*store->find("a", "ann"))->response, stored.response);
}

TEST(ResponseStore, the_oldest_make_room) {
  const auto store = open({.max_bytes = 100'000});
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(store->put(response(strf("r%d", i), "", 1000), 1000));
  EXPECT_LE(store->count(), 100);
  EXPECT_GE(store->count(), 60);
  EXPECT_TRUE(*store->find("r999", "ann"));
  EXPECT_FALSE(*store->find("r500", "ann"));
  ASSERT_TRUE(store->put(response("large", "", 300'000), 1000));
  EXPECT_TRUE(*store->find("large", "ann"));
  EXPECT_EQ(store->count(), 1);

  ASSERT_TRUE(store->put(response("again"), 1000 + 30 * 24 * 3600 + 1));
  EXPECT_EQ(store->count(), 0);  // too old, all of them
}

TEST(ResponseStore, what_ran_when_the_process_ended_has_failed) {
  const StoreOptions options = {.path = fresh_file("running.db")};
  {
    StoredResponse running = response("a");
    running.running = true;
    ASSERT_TRUE(open(options)->put(running, 1000));
  }
  const auto found = *open(options)->find("a", "ann");
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->running);
  EXPECT_EQ((*parse_json(found->response))["status"], "failed");
}

TEST(ResponseStore, a_file_of_another_kind_is_refused) {
  const std::string path = fresh_file("no.db");
  FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("this is no database, and long enough to be seen as none", file);
  std::fclose(file);
  EXPECT_FALSE(ResponseStore::open({.path = path}));
  EXPECT_FALSE(ResponseStore::open({.path = "/no/such/folder/x.db"}));
}

// A writer is killed at some moment; whatever it had said to be stored is there.
TEST(ResponseStore, a_kill_loses_nothing_that_was_stored) {
  const StoreOptions options = {.path = fresh_file("killed.db")};
  int stored = 0;
  for (int round = 0; round < 4; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto store = ResponseStore::open(options);
      for (int i = stored; store; ++i) {
        if (!(*store)->put(response(strf("r%d", i), i ? strf("r%d", i - 1) : "", 500), 1000)) break;
        if (::write(pipe[1], "x", 1) != 1) break;
      }
      ::_exit(1);
    }
    ::close(pipe[1]);
    char said;
    for (int i = 0; i < 20 + 7 * round; ++i) stored += int(::read(pipe[0], &said, 1));
    ::kill(child, SIGKILL);
    while (::read(pipe[0], &said, 1) == 1) ++stored;
    ::waitpid(child, nullptr, 0);
    ::close(pipe[0]);

    const auto store = open(options);
    ASSERT_GE(stored, 20);
    const auto chain = store->chain(strf("r%d", stored - 1), "ann");
    ASSERT_TRUE(chain) << chain.error().message;
    EXPECT_EQ(chain->size(), size_t(stored));
  }
}

}  // namespace
}  // namespace rose
