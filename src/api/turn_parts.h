// What the model says as a row of parts: reasoning, content and calls, each of which begins, grows and
// ends. Every API that shows parts (items, blocks) is such a row in a shape of its own.
#pragma once
#include <string>
#include <string_view>

#include "api/choice.h"

namespace rose {

class TurnParts {
 public:
  virtual ~TurnParts() = default;

  void add(const Delta& delta);
  // The last part ends: whole, or cut short.
  void close(bool complete = true);

 protected:
  enum class Kind { none, reasoning, content, call };

  Kind open() const { return open_; }                // the part that grows
  const std::string& text() const { return text_; }  // all that it has

 private:
  virtual void begin(Kind kind, const Delta& delta) = 0;
  virtual void grow(std::string_view text, const Delta& delta) = 0;  // text() has it already
  virtual void end(bool complete) = 0;

  void start(Kind kind, const Delta& delta);
  void extend(const Delta& delta);

  Kind open_ = Kind::none;
  std::string text_;
  bool seen_[4] = {};  // kinds that there were
  size_t joint_ = 0;   // bytes to come that only join it to the one of its kind before
};

}  // namespace rose
