// What fuzzing tries. A target takes any bytes and stops the program (ROSE_CHECK) where something that
// must hold does not. libFuzzer drives them (main.cc), and the test suite replays their corpora with
// small changes (replay_test.cc).
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace rose::fuzz {

struct Target {
  const char* name;
  void (*run)(std::string_view input);
};
std::span<const Target> targets();

void http(std::string_view input);         // bytes on a connection
void requests(std::string_view input);     // JSON bodies, through every route of a server
void harmony(std::string_view input);      // tokens that a model says
void tokenizer(std::string_view input);    // text to ids and back
void vocabulary(std::string_view input);   // tokenizer.json and *.tiktoken
void safetensors(std::string_view input);  // the header of a weights file
void schema(std::string_view input);       // JSON Schemas, and the documents their masks allow

// Takes what it needs from the front of the input; past its end everything is zero.
class Choices {
 public:
  explicit Choices(std::string_view input) : input_(input) {}

  bool empty() const { return input_.empty(); }
  uint8_t byte() {
    if (input_.empty()) return 0;
    const char first = input_.front();
    input_.remove_prefix(1);
    return uint8_t(first);
  }
  size_t below(size_t count) { return byte() % count; }
  template <class List>
  decltype(auto) of(const List& list) {
    return list[below(std::size(list))];
  }
  std::string_view rest() const { return input_; }

 private:
  std::string_view input_;
};

}  // namespace rose::fuzz
