// Line editing, on a terminal of the test's own.
#include "cli/line_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/file.h"

// libedit and libtinfo never free the names of functions and a string of the terminal's.
extern "C" const char* __lsan_default_suppressions() { return "leak:wcsdup\nleak:_nc_trim_sgr0\n"; }

namespace rose {
namespace {

class LineReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    history_ = ::testing::TempDir() + "/rose_history/lines";
    std::filesystem::remove_all(::testing::TempDir() + "/rose_history");
    ::setenv("TERM", "xterm", 1);
    if (::openpty(&user_, &program_, nullptr, nullptr, nullptr) != 0)
      GTEST_SKIP() << "this computer gives no terminal: " << std::strerror(errno);
    in_ = ::fdopen(program_, "r");
    out_ = ::fdopen(::dup(program_), "w");
    ::fcntl(user_, F_SETFL, O_NONBLOCK);
    open();
  }
  void TearDown() override {
    lines_.reset();
    if (!in_) return;
    std::fclose(in_);
    std::fclose(out_);
    ::close(user_);
  }
  void open() {
    lines_ = edited_lines(in_, out_, history_, [](const std::string& beginning) {
      std::vector<std::string> found;
      for (const char* word : {"/save", "/set", "/show"})
        if (std::string(word).starts_with(beginning)) found.push_back(word);
      return found;
    });
  }
  // What comes of these keys, typed as soon as the reader has taken over: before, the terminal itself
  // would see to them.
  LineReader::Got keys(const std::string& typed, std::string& line) {
    std::thread typist([&] {
      const auto cooked = [&] {
        termios mode{};
        return ::tcgetattr(user_, &mode) == 0 && (mode.c_lflag & ICANON);
      };
      while (cooked()) std::this_thread::yield();
      EXPECT_EQ(::write(user_, typed.data(), typed.size()), ssize_t(typed.size()));
    });
    const LineReader::Got got = lines_->read(">>> ", line);
    typist.join();
    char shown[4096];
    while (::read(user_, shown, sizeof shown) > 0) {  // or the terminal would fill up
    }
    return got;
  }
  std::string line(const std::string& typed) {
    std::string line;
    EXPECT_EQ(keys(typed, line), LineReader::Got::line);
    return line;
  }

  std::string history_;
  int user_ = -1, program_ = -1;
  std::FILE *in_ = nullptr, *out_ = nullptr;
  std::unique_ptr<LineReader> lines_;
};

TEST_F(LineReaderTest, keys_edit_the_line) {
  EXPECT_EQ(line("hello\n"), "hello");
  EXPECT_EQ(line("ello\x01h\x05!\n"), "hello!");
  EXPECT_EQ(line("caf\xC3\xA9x\x7f 😀\x7f!\n"), "caf\xC3\xA9 !");
  EXPECT_EQ(line("one two\x17three\n"), "one three");
  EXPECT_EQ(line("/cl\t\n"), "/cl");
  EXPECT_EQ(line("/sh\tx\n"), "/show x");
}

TEST_F(LineReaderTest, a_paste_of_several_lines_is_one_message) {
  EXPECT_EQ(line("see \x1b[200~one\rtwo\n\tthree\n\x1b[201~!\n"), "see one\ntwo\n\tthree!");
}

TEST_F(LineReaderTest, earlier_lines_come_back_also_next_time) {
  lines_->remember("first");
  lines_->remember("second");
  EXPECT_EQ(line("\x1b[A\x1b[A\n"), "first");
  EXPECT_EQ(line("\x12"
                 "eco\n\n"),
            "second");
  lines_.reset();
  open();
  EXPECT_EQ(line("\x1b[A\n"), "second");
  EXPECT_EQ(std::filesystem::status(history_).permissions(), std::filesystem::perms(0600));
}

TEST_F(LineReaderTest, control_c_gives_up_the_line_and_control_d_the_chat) {
  std::string line;
  EXPECT_EQ(keys("half\x03", line), LineReader::Got::interrupted);
  EXPECT_EQ(keys("whole\n", line), LineReader::Got::line);
  EXPECT_EQ(line, "whole");
  EXPECT_EQ(keys("\x04", line), LineReader::Got::end);
}

}  // namespace
}  // namespace rose
