#include "api/event_logs.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

struct Heard {
  std::string events;
  bool ended = false;
  EventLogs::Reader reader() {
    return [this](const std::string& more, bool last) {
      events += more;
      ended |= last;
    };
  }
};

TEST(EventLogs, a_reader_gets_what_it_missed_and_what_comes) {
  EventLogs logs;
  logs.append("a", "lost");  // of no log
  logs.begin("a");
  for (const char* event : {"0", "1", "2"}) logs.append("a", event);
  Heard all, rest, none, left;
  EXPECT_TRUE(logs.follow("a", 0, 1, all.reader()));
  EXPECT_TRUE(logs.follow("a", 2, 2, rest.reader()));
  EXPECT_TRUE(logs.follow("a", 0, 3, left.reader()));
  EXPECT_FALSE(logs.follow("b", 0, 4, none.reader()));
  logs.leave("a", 3);
  logs.append("a", "3");
  EXPECT_EQ(all.events, "0123");
  EXPECT_EQ(rest.events, "23");
  EXPECT_EQ(left.events, "012");
  EXPECT_FALSE(all.ended);
  logs.end("a");
  EXPECT_TRUE(all.ended && rest.ended);
  EXPECT_FALSE(left.ended);
  Heard late, beyond;
  EXPECT_TRUE(logs.follow("a", 3, 5, late.reader()));
  EXPECT_TRUE(logs.follow("a", 9, 6, beyond.reader()));
  EXPECT_EQ(late.events, "3");
  EXPECT_EQ(beyond.events, "");
  EXPECT_TRUE(late.ended && beyond.ended);
}

TEST(EventLogs, removed_is_ended_for_its_readers) {
  EventLogs logs;
  logs.begin("a");
  Heard heard, late;
  ASSERT_TRUE(logs.follow("a", 0, 1, heard.reader()));
  logs.remove("a");
  EXPECT_TRUE(heard.ended);
  logs.append("a", "x");
  logs.end("a");
  EXPECT_FALSE(logs.follow("a", 0, 2, late.reader()));
  logs.begin("b");
  logs.end("b");
  logs.remove("b");
  EXPECT_FALSE(logs.follow("b", 0, 3, late.reader()));
}

TEST(EventLogs, what_has_ended_makes_room_then_the_beginning_of_what_grows) {
  EventLogs logs(10);
  for (const char* id : {"a", "b", "c"}) {
    logs.begin(id);
    logs.append(id, "1234");
    if (*id != 'c') logs.end(id);  // 4, 8, then a goes
  }
  Heard heard;
  EXPECT_FALSE(logs.follow("a", 0, 1, heard.reader()));
  logs.remove("a");
  EXPECT_TRUE(logs.follow("b", 0, 2, heard.reader()));
  logs.append("c", "5678");  // b goes
  EXPECT_FALSE(logs.follow("b", 0, 3, heard.reader()));
  logs.append("c", "90");
  EXPECT_TRUE(logs.follow("c", 0, 4, heard.reader()));
  logs.append("c", "x");
  EXPECT_FALSE(logs.follow("c", 0, 5, heard.reader()));
  Heard rest;
  EXPECT_TRUE(logs.follow("c", 1, 6, rest.reader()));
  EXPECT_EQ(rest.events, "567890x");
}

}  // namespace
}  // namespace rose
