#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// The library's errors. Messages name the operation, the argument, what was given and what was expected.
namespace tendril {

/// The base of all of the library's errors.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Shapes that do not fit each other or the operation.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A dtype that the operation does not take, or two that differ where they must not.
class DTypeError : public Error {
 public:
  using Error::Error;
};

/// An index or a dimension out of range.
class IndexError : public Error {
 public:
  using Error::Error;
};

/// Misuse of the graph: in-place changes of what backward needs, a second backward, a leaf written to, ...
class AutogradError : public Error {
 public:
  using Error::Error;
};

namespace detail {
template <class E, class... Parts>
[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void raise(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());  // whatever the program's locale puts between digits
  (out << ... << parts);
  throw E(out.str());
}
}  // namespace detail

}  // namespace tendril

/// Throws `ErrorType` with the streamed parts unless the condition holds. The parts are evaluated only on failure.
#define TENDRIL_CHECK_AS(ErrorType, condition, ...)     \
  do {                                                  \
    if (!(condition)) [[unlikely]]                      \
      ::tendril::detail::raise<ErrorType>(__VA_ARGS__); \
  } while (false)

#define TENDRIL_CHECK(condition, ...) TENDRIL_CHECK_AS(::tendril::Error, condition, __VA_ARGS__)

TENDRIL_API_END
