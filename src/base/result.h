// What can go wrong in the outside world (files, requests, options) is a value: Result<T> holds a T
// or an Error, TRY passes the error up, within() says what was being done.
#pragma once
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace rose {

// usage: a command was wrongly called; the rest is about what it was asked to do.
enum class ErrorKind { usage, invalid, not_found, unsupported, corrupt, io, busy, cancelled };

// What went wrong, in words a user can act on: what was found, what was wanted.
struct Error {
  ErrorKind kind;
  std::string message;

  // Callers add what they were doing, outermost first.
  Error within(const std::string& doing) && { return {kind, doing + ": " + std::move(message)}; }
};

template <class T>
using Result = tl::expected<T, Error>;

struct Done {};
using Status = Result<Done>;

inline tl::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{kind, std::move(message)});
}

// Adds to a failed result what was being done; a good one passes untouched.
template <class T>
Result<T> within(Result<T> result, const std::string& doing) {
  if (result) return result;
  return tl::unexpected<Error>(std::move(result).error().within(doing));
}

}  // namespace rose

// The value of a Result, or return its error to the caller.
#define TRY(expression)                                                    \
  __extension__({                                                          \
    auto try_result = (expression);                                        \
    if (!try_result) [[unlikely]]                                          \
      return tl::unexpected<::rose::Error>(std::move(try_result).error()); \
    *std::move(try_result);                                                \
  })
