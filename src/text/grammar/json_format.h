// The values of `format` in JSON Schema that strings can be held to.
#pragma once
#include <string>
#include <string_view>

namespace rose::grammar {

// A regular expression for the whole string; null: unknown. It may allow less than the format does
// (no 29th of February), never more.
const char* format_pattern(std::string_view format);

std::string known_formats();  // "date, date-time, …"

}  // namespace rose::grammar
