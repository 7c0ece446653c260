// What a custom tool is called with. Such a tool takes any text; the model, which writes arguments as JSON,
// is told of a function of one string, {"input": "…"}, and what the client sees is that string.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace rose {

// The schema that the model sees; `pattern`: what the text must match, or empty.
std::shared_ptr<const Json> custom_input_schema(const std::string& pattern);
std::string wrap_custom_input(const std::string& text);

// The way back, piece by piece. What is no such object is the text itself.
class CustomInput {
 public:
  std::string push(std::string_view piece);  // the text that became certain
  std::string finish();

 private:
  enum class State { opening, inside, behind, plain };
  void open();

  State state_ = State::opening;
  std::string pending_;  // not yet understood
};

}  // namespace rose
