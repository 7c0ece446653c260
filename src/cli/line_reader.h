// Reads what a user types: on a terminal with line editing, history and completion (libedit), else plain
// lines.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rose {

class LineReader {
 public:
  enum class Got { line, interrupted, end };
  // What may stand in place of a beginning, whole.
  using Complete = std::function<std::vector<std::string>(const std::string& beginning)>;

  virtual ~LineReader() = default;
  virtual Got read(const std::string& prompt, std::string& line) = 0;
  virtual void remember(const std::string& line) = 0;  // in the history, and its file
};

// `history_file` may be empty, or not be there yet.
std::unique_ptr<LineReader> edited_lines(std::FILE* in, std::FILE* out,
                                         const std::string& history_file,
                                         LineReader::Complete complete);
std::unique_ptr<LineReader> plain_lines();

}  // namespace rose
