// Bugs of ours stop loudly, in every build: ROSE_CHECK prints the place, the condition and what was
// found, and aborts. Input from outside never reaches it; that is what Result is for (result.h).
#pragma once
#include <string>

namespace rose {

// printf into a std::string; the compiler checks the arguments.
[[gnu::format(printf, 1, 2)]] std::string strf(const char* format, ...);

[[noreturn, gnu::format(printf, 4, 5)]] void check_failed(const char* file, int line,
                                                          const char* condition, const char* format,
                                                          ...);

}  // namespace rose

// ROSE_CHECK(condition, "what was being done: what was found, what was wanted", values...)
#define ROSE_CHECK(condition, ...)                                       \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::rose::check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__); \
  } while (false)
