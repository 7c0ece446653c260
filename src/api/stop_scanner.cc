#include "api/stop_scanner.h"

#include <algorithm>
#include <utility>

namespace rose {

std::string StopScanner::push(std::string_view text) {
  if (matched_) return {};
  if (stops_.empty()) return std::string(text);
  held_ += text;
  // The string that ends first wins, then the one that begins first: so it would be if the text came
  // letter by letter, and the result must not depend on how it was cut.
  size_t begin = 0, end = held_.npos;
  size_t hold = held_.size();  // where the longest possible beginning of a match starts
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at != held_.npos && (at + stop.size() < end || (at + stop.size() == end && at < begin))) {
      begin = at;
      end = at + stop.size();
      matched_ = &stop;
    }
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > 0; --length)
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) {
        hold = std::min(hold, held_.size() - length);
        break;
      }
  }
  const size_t certain_bytes = matched_ ? (include_ ? end : begin) : hold;
  std::string certain = held_.substr(0, certain_bytes);
  held_.erase(0, matched_ ? held_.size() : hold);
  return certain;
}

std::string StopScanner::finish() { return std::exchange(held_, {}); }

}  // namespace rose
