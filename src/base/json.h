// nlohmann's JSON under our name. Objects keep their key order (tool schemas are rendered in it).
// Parsing never throws; a depth limit keeps hostile nesting off the stack; dump_json never throws on
// broken UTF-8. Headers that only pass Json on include <nlohmann/json_fwd.hpp> through json_fwd.h.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"

namespace rose {

inline constexpr int kJsonDepth = 200;

// One JSON value and nothing after it; the error says at which byte and what was expected.
Result<Json> parse_json(std::string_view text, int depth_limit = kJsonDepth);

// Compact (indent < 0) or indented; bytes that are no UTF-8 become U+FFFD.
std::string dump_json(const Json& value, int indent = -1);

}  // namespace rose
