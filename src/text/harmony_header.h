// The header of a message, read back from its text as the reference reads it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/harmony.h"

namespace rose::harmony {

// What stood between <|start|> (or the given role) and <|message|>. The errors are the reference's.
Result<Header> parse_header(std::string_view text, std::optional<Role> role);

// A header that met a stop token before its <|message|>: what is no role and no channel is content.
struct Unfinished {
  Header header;
  std::string content;
};
Result<Unfinished> parse_unfinished_header(std::string_view text, Role role);

}  // namespace rose::harmony
