// What the model says as content blocks of Anthropic's Messages API: thinking, text and tool_use, and the
// events that tell of their growth. Streamed or not, it is this one path that makes the blocks.
#pragma once
#include <functional>
#include <memory>

#include "api/turn_parts.h"
#include "base/json_fwd.h"

namespace rose {

class MessageBlocks final : public TurnParts {
 public:
  // An event: its type, and its other fields as JSON text, each with a comma before it.
  using Emit = std::function<void(std::string_view type, std::string_view fields)>;

  explicit MessageBlocks(Emit emit);
  ~MessageBlocks() override;

  const Json& blocks() const;

 private:
  void begin(Kind kind, const Delta& delta) override;
  void grow(std::string_view text, const Delta& delta) override;
  void end(bool complete) override;
  void emit_delta(const std::string& delta);

  const Emit emit_;
  std::unique_ptr<Json> blocks_;
};

}  // namespace rose
