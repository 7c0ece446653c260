// Whether a sanitizer watches the library: tests of much arithmetic then take the short ones of their cases.
// Asked of the linked program, because the tests themselves are compiled once for both.
#pragma once

extern "C" __attribute__((weak)) void __asan_init();
extern "C" __attribute__((weak)) void __tsan_init();

namespace rose::testing {
inline bool watched() { return __asan_init != nullptr || __tsan_init != nullptr; }
}  // namespace rose::testing
