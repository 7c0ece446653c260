#include "api/turn_parts.h"

#include <algorithm>
#include <utility>

namespace rose {

void TurnParts::add(const Delta& delta) {
  switch (delta.kind) {
    case ChatEvent::Kind::reasoning:
      if (open_ != Kind::reasoning) start(Kind::reasoning, delta);
      return extend(delta);
    case ChatEvent::Kind::content:
      if (open_ != Kind::content) start(Kind::content, delta);
      return extend(delta);
    case ChatEvent::Kind::tool_call: return start(Kind::call, delta);
    case ChatEvent::Kind::tool_arguments: return extend(delta);
  }
}

void TurnParts::start(Kind kind, const Delta& delta) {
  close();
  open_ = kind;
  text_.clear();
  joint_ = std::exchange(seen_[int(kind)], true) && kind != Kind::call ? kMessageJoint.size() : 0;
  begin(kind, delta);
}

void TurnParts::extend(const Delta& delta) {
  std::string_view text = delta.text;
  const size_t skip = std::min(joint_, text.size());
  joint_ -= skip;
  text.remove_prefix(skip);
  if (text.empty()) return;
  text_ += text;
  grow(text, delta);
}

void TurnParts::close(bool complete) {
  if (open_ == Kind::none) return;
  end(complete);
  open_ = Kind::none;
}

}  // namespace rose
