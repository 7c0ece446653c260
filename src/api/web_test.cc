// The web pages: there, whole, and under a policy that lets nothing else run.
#include "api/web.h"

#include <cstring>

#include "api/server_fixture.h"
#include "base/file.h"

namespace rose {
namespace {

using testing::Answer;
using testing::RawClient;
using testing::ServerTest;

TEST_F(ServerTest, the_pages_are_in_the_program) {
  start();
  RawClient client(port());
  const std::pair<const char*, const char*> pages[] = {
      {"/", "index.html"}, {"/dashboard", "dashboard.html"}, {"/web/chat.js", "chat.js"}};
  for (const auto& [path, name] : pages) {
    SCOPED_TRACE(path);
    const Answer answer = client.get(path);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, *read_file(std::string(ROSE_SOURCE_DIR "/src/web/") + name));
    EXPECT_EQ(answer.header("X-Content-Type-Options"), "nosniff");
    EXPECT_NE(
        answer.header("Content-Security-Policy").find("default-src 'none'; script-src 'self'"),
        std::string::npos);
    const Answer again = client.get(path, "If-None-Match: " + answer.header("ETag") + "\r\n");
    EXPECT_EQ(again.status, 304);
    EXPECT_EQ(again.body, "");
  }
  EXPECT_EQ(client.get("/").header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(client.get("/web/style.css").header("Content-Type"), "text/css; charset=utf-8");
  for (const char* path : {"/web/none.js", "/web/../web/chat.js", "/web/"})
    EXPECT_EQ(client.get(path).status, 404) << path;
}

// The policy forbids script and style inside the pages, and everything from elsewhere: then they must
// not have any.
TEST(Web, pages_keep_to_their_policy) {
  for (const WebFile& file : web_files()) {
    SCOPED_TRACE(file.name);
    EXPECT_FALSE(file.type.empty());
    for (const char* forbidden :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
          " style=", "<style", " onclick", "javascript:"})
      EXPECT_EQ(file.body.find(forbidden), file.body.npos) << forbidden;
    if (!file.type.starts_with("text/html")) continue;
    for (size_t at = 0; (at = file.body.find("<script", at)) != file.body.npos; ++at)
      EXPECT_EQ(file.body.substr(at, 33).substr(0, 32), "<script type=\"module\" src=\"/web/");
    for (const char* attribute : {" src=\"", " href=\""})
      for (size_t at = 0; (at = file.body.find(attribute, at)) != file.body.npos; ++at)
        EXPECT_TRUE(strchr("/#", file.body[at + strlen(attribute)])) << file.body.substr(at, 40);
  }
}

}  // namespace
}  // namespace rose
