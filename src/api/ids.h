// Names for what is made: requests, completions, tool calls.
#pragma once
#include <string>
#include <string_view>

namespace rose {

// `prefix` and `digits` random hexadecimal digits. From any thread.
std::string new_id(std::string_view prefix, int digits);

}  // namespace rose
