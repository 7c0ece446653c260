// Finds the first of several strings in text that comes in pieces, however it is cut: what may be the
// beginning of one is held back until the next piece decides.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace rose {

class StopScanner {
 public:
  StopScanner() = default;
  // `include`: the string that matched stays in the text.
  StopScanner(std::vector<std::string> stops, bool include)
      : stops_(std::move(stops)), include_(include) {}

  // What is certain now. After a match (the string that ends first) nothing more comes.
  std::string push(std::string_view text);
  std::string finish();  // the text has ended: what was held back

  const std::string* matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  bool include_ = false;
  std::string held_;
  const std::string* matched_ = nullptr;  // one of stops_
};

}  // namespace rose
