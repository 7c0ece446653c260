// White space as Unicode has it.
#pragma once
#include <cstddef>
#include <string_view>

namespace rose {

// The length in bytes of the character of Unicode's White_Space that starts at `at`; 0: none does.
size_t whitespace_at(std::string_view text, size_t at);

std::string_view trim_start(std::string_view text);
std::string_view trim(std::string_view text);

}  // namespace rose
