// A command's options: one struct of fields with defaults, one each(visit) that lists name, field and
// help. Parsing, --help, the environment's spelling and the start-up report all come from that list.
//
//   visit("--max-model-len,--context-length", max_model_len, "tokens of one sequence");
//
// A name without dashes is positional; one that begins with $ is another variable of the environment. "--a-b" is also read as "--a_b" and from $ROSE_A_B; a bool
// "--x" also as "--no-x"; whole numbers take k, M and G (powers of 1024).
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace rose {

class OptionList {
 public:
  struct Option {
    std::string names;
    std::string help;
    std::string value;  // the default, as text
    bool is_flag = false;
    bool is_list = false;
    std::function<Status(const std::string&)> set;
  };

  void operator()(const char* names, std::string& field, const char* help);
  void operator()(const char* names, int& field, const char* help);
  void operator()(const char* names, int64_t& field, const char* help);
  void operator()(const char* names, uint64_t& field, const char* help);
  void operator()(const char* names, double& field, const char* help);
  void operator()(const char* names, bool& field, const char* help);
  void operator()(const char* names, std::vector<std::string>& field, const char* help);
  void operator()(const char* names, std::vector<int>& field, const char* help);  // "1,8,32"

  const std::vector<Option>& options() const { return options_; }

 private:
  std::vector<Option> options_;
};

struct CommandHelp {
  const char* name;      // "serve"
  const char* about;     // one line
  const char* examples;  // shown at the end of --help
};

enum class Parsed { run, help };  // help: it was printed, nothing is left to do

// An error is of kind usage: the caller exits with 2.
Result<Parsed> parse_list(const CommandHelp& command, const OptionList& list,
                          std::span<const std::string> arguments);

template <class Options>
Result<Parsed> parse_options(const CommandHelp& command, Options& options,
                             std::span<const std::string> arguments) {
  OptionList list;
  options.each(list);
  return parse_list(command, list, arguments);
}

// The candidate that `word` was probably meant to be; empty if none is near.
std::string nearest(const std::string& word, std::span<const std::string> candidates);

}  // namespace rose
