#include "base/check.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace rose {

namespace {
std::string vstrf(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  std::string text(size_t(length > 0 ? length : 0), '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}
}  // namespace

std::string strf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = vstrf(format, arguments);
  va_end(arguments);
  return text;
}

void check_failed(const char* file, int line, const char* condition, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = vstrf(format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "rose: bug at %s:%d: %s (%s)\n", file, line, text.c_str(), condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace rose
