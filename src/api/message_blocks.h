// What the model says as content blocks of Anthropic's Messages API: thinking, text and tool_use, and the
// events that tell of their growth. Streamed or not, it is this one path that makes the blocks.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/choice.h"
#include "base/json_fwd.h"

namespace rose {

class MessageBlocks {
 public:
  // An event: its type, and its other fields as JSON text, each with a comma before it.
  using Emit = std::function<void(std::string_view type, std::string_view fields)>;

  explicit MessageBlocks(Emit emit);
  ~MessageBlocks();

  void add(const Delta& delta);
  void close();  // the last block ends
  const Json& blocks() const;

 private:
  enum class Kind { none, thinking, text, tool };

  void open(Kind kind, const Delta& delta);
  void add_text(const Delta& delta);
  void emit_delta(const std::string& delta);

  const Emit emit_;
  std::unique_ptr<Json> blocks_;
  Kind open_ = Kind::none;
  std::string text_;   // of the open block
  bool seen_[4] = {};  // kinds that there were
  size_t joint_ = 0;   // bytes to come that only join it to the one before
};

}  // namespace rose
