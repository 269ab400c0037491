#pragma once

#include <sys/resource.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "tendril/rpc/error.h"

namespace tendril::rpc::detail {

/// Returns the text for errno.
inline std::string last_error() { return std::system_category().message(errno); }

/// The error for a user when the system refuses a resource that a worker needs. `text` is the system's message.
inline RpcError system_failure(int error, const std::string& text) {
  if (error != EMFILE) return RpcError("the system refused a resource that a worker needs: " + text);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return RpcError("this process has no file descriptor left for a worker: " + text + " (`ulimit -n` is " +
                  std::to_string(limit.rlim_cur) + ")");
}

/// Runs `f`, and converts system errors of the standard library and of Asio to RpcError.
template <class F>
decltype(auto) with_system_failures(F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const boost::system::system_error& e) {
    throw system_failure(e.code().value(), e.code().message());
  } catch (const std::system_error& e) {
    throw system_failure(e.code().value(), e.code().message());
  }
}

}  // namespace tendril::rpc::detail
