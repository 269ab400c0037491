#pragma once

#include <exception>
#include <functional>
#include <string>

#include "tendril/rpc/executor.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// The error of a call, continuation or coroutine that failed and whose future was released before its outcome was
/// read. wait, has_error, co_await and wait_all read it. A cancelled call does not count.
struct UnreadError {
  std::string function = {};  ///< the called function, "a continuation (Future::then)" or "a coroutine (Task)"
  std::exception_ptr error = nullptr;
};

/// Called once for each unread error, on the thread that releases the future. If that thread drives I/O, it is called
/// soon afterwards on a thread of the agent's pool, as the destructors of users' objects are. Its exceptions are
/// ignored.
using UnreadErrorHandler = std::function<void(const UnreadError&)>;

/// Sets this process's handler of unread errors and returns the previous one. The default, an empty handler, prints one
/// line per error to stderr, at most 10 per second. Agents count unread errors either way (Metrics::errors_unread).
/// Thread-safe.
UnreadErrorHandler set_unread_error_handler(UnreadErrorHandler handler);

namespace detail {
/// Counts and reports the error, unless it is a CancelledError.
void report_unread_error(Executor* executor, const char* function, const std::exception_ptr& error) noexcept;
}  // namespace detail

}  // namespace tendril::rpc

TENDRIL_API_END
