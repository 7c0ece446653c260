#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace rose {

namespace {

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = spdlog::stderr_color_mt("rose");
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    return made;
  }();
  return *instance;
}

constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                 spdlog::level::warn, spdlog::level::err};

}  // namespace

void log_line(LogLevel level, std::string_view text) {
  logger().log(kLevels[int(level)], spdlog::string_view_t(text.data(), text.size()));
}

bool set_log_level(std::string_view name) {
  constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};
  for (int level = 0; level < 4; ++level)
    if (name == kNames[level]) {
      logger().set_level(kLevels[level]);
      return true;
    }
  return false;
}

}  // namespace rose
