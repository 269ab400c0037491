#pragma once

#include <exception>
#include <functional>
#include <string>

#include "tendril/rpc/executor.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// A call failed and its future (or that of a continuation or coroutine that threw) went away before anybody had asked
/// for its outcome: wait, has_error, co_await and wait_all ask. Calls that were cancelled are none.
struct UnreadError {
  std::string function = {};  ///< that was called; "a continuation (Future::then)", "a coroutine (Task)"
  std::exception_ptr error = nullptr;
};

/// Called once for each: on the thread that releases the future, or, where that one drives I/O, soon on a thread of
/// the agent's pool, as the destructors of users' objects are. What it throws is ignored.
using UnreadErrorHandler = std::function<void(const UnreadError&)>;

/// Sets what becomes of such errors in this process; returns what was set before. Empty, as at the start: a line on
/// stderr, at most 10 a second. Agents count them either way (Metrics::errors_unread). Thread-safe.
UnreadErrorHandler set_unread_error_handler(UnreadErrorHandler handler);

namespace detail {
/// Counts and reports the error, unless it is a CancelledError.
void report_unread_error(Executor* executor, const char* function, const std::exception_ptr& error) noexcept;
}  // namespace detail

}  // namespace tendril::rpc

TENDRIL_API_END
