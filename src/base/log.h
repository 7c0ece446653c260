// One event, one line, to stderr: time, level, text. From any thread.
#pragma once
#include <string>
#include <string_view>

namespace rose {

enum class LogLevel { debug, info, warning, error };

void log_line(LogLevel level, std::string_view text);
inline void log_info(std::string_view text) { log_line(LogLevel::info, text); }
inline void log_warning(std::string_view text) { log_line(LogLevel::warning, text); }

// "debug", "info", "warning", "error"; false for any other word.
bool set_log_level(std::string_view name);

}  // namespace rose
