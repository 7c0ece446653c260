#include "cli/line_reader.h"

#include <histedit.h>

#include <clocale>
#include <cstdio>
#include <filesystem>
#include <iostream>

namespace rose {

namespace {

constexpr int kHistoryLines = 1000;
constexpr const char* kPasteBegins = "\033[200~";
constexpr std::string_view kPasteEnds = "\033[201~";

class EditedLines final : public LineReader {
 public:
  EditedLines(std::FILE* in, std::FILE* out, std::string file, Complete complete)
      : out_(out), file_(std::move(file)), complete_(std::move(complete)) {
    // Characters of several bytes are one only where the locale says so.
    if (!std::setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    HistEvent event;
    history_ = ::history_init();
    ::history(history_, &event, H_SETSIZE, kHistoryLines);
    ::history(history_, &event, H_SETUNIQUE, 1);
    if (!file_.empty()) ::history(history_, &event, H_LOAD, file_.c_str());

    edit_ = ::el_init("rose", in, out, out);
    ::el_set(edit_, EL_CLIENTDATA, this);
    ::el_set(edit_, EL_PROMPT, prompt);
    ::el_set(edit_, EL_EDITOR, "emacs");
    ::el_set(edit_, EL_HIST, ::history, history_);
    ::el_set(edit_, EL_SIGNAL, 0);
    ::el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    ::el_set(edit_, EL_BIND, "^W", "ed-delete-prev-word", nullptr);
    // Ctrl-C gives up the line, and neither kills the program nor leaves the terminal changed.
    ::el_set(edit_, EL_SETTY, "-d", "-isig", nullptr);
    ::el_set(edit_, EL_ADDFN, "rose-give-up", "give up the line", give_up);
    ::el_set(edit_, EL_BIND, "^C", "rose-give-up", nullptr);
    ::el_set(edit_, EL_ADDFN, "rose-complete", "complete a command", complete_line);
    ::el_set(edit_, EL_BIND, "^I", "rose-complete", nullptr);
    ::el_set(edit_, EL_ADDFN, "rose-paste", "take a paste as one piece", paste);
    ::el_set(edit_, EL_BIND, kPasteBegins, "rose-paste", nullptr);
  }
  ~EditedLines() override {
    ::el_end(edit_);
    ::history_end(history_);
  }

  Got read(const std::string& prompt, std::string& line) override {
    prompt_ = prompt;
    given_up_ = false;
    int count = 0;
    announce(true);
    const char* text = ::el_gets(edit_, &count);
    announce(false);
    if (given_up_) return Got::interrupted;
    if (!text || count <= 0) return Got::end;
    line.assign(text, size_t(count));
    if (line.ends_with('\n')) line.pop_back();
    return Got::line;
  }

  void remember(const std::string& line) override {
    HistEvent event;
    ::history(history_, &event, H_ENTER, line.c_str());
    if (file_.empty()) return;
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), error);
    ::history(history_, &event, H_SAVE, file_.c_str());
    std::filesystem::permissions(file_, std::filesystem::perms(0600), error);
  }

 private:
  static EditedLines& self(EditLine* edit) {
    void* data = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &data);
    return *static_cast<EditedLines*>(data);
  }
  static char* prompt(EditLine* edit) { return self(edit).prompt_.data(); }
  static unsigned char give_up(EditLine* edit, int) {
    self(edit).given_up_ = true;
    return CC_EOF;
  }
  // The terminal marks what is pasted, so that its line ends do not send it.
  void announce(bool marked) {
    std::fputs(marked ? "\033[?2004h" : "\033[?2004l", out_);
    std::fflush(out_);
  }
  static unsigned char paste(EditLine* edit, int) {
    std::string text;
    for (char c; !text.ends_with(kPasteEnds) && ::el_getc(edit, &c) == 1;)
      text += c == '\r' ? '\n' : c;
    if (text.ends_with(kPasteEnds)) text.resize(text.size() - kPasteEnds.size());
    while (text.ends_with('\n')) text.pop_back();
    return ::el_insertstr(edit, text.c_str()) == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
  }
  static unsigned char complete_line(EditLine* edit, int) {
    const LineInfo* line = ::el_line(edit);
    const std::string before(line->buffer, line->cursor);
    const std::vector<std::string> found = self(edit).complete_(before);
    if (found.empty()) return CC_REFRESH_BEEP;
    std::string common = found.front();  // what all have in common
    for (const std::string& other : found)
      while (!other.starts_with(common)) common.pop_back();
    const std::string more = common.substr(before.size()) + (found.size() == 1 ? " " : "");
    if (more.empty() || ::el_insertstr(edit, more.c_str()) != 0) return CC_REFRESH_BEEP;
    return CC_REFRESH;
  }

  std::FILE* out_;
  std::string file_, prompt_;
  Complete complete_;
  History* history_ = nullptr;
  EditLine* edit_ = nullptr;
  bool given_up_ = false;
};

class PlainLines final : public LineReader {
 public:
  Got read(const std::string&, std::string& line) override {
    return std::getline(std::cin, line) ? Got::line : Got::end;
  }
  void remember(const std::string&) override {}
};

}  // namespace

std::unique_ptr<LineReader> edited_lines(std::FILE* in, std::FILE* out,
                                         const std::string& history_file,
                                         LineReader::Complete complete) {
  return std::make_unique<EditedLines>(in, out, history_file, std::move(complete));
}
std::unique_ptr<LineReader> plain_lines() { return std::make_unique<PlainLines>(); }

}  // namespace rose
