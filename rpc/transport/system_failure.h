#pragma once

#include <sys/resource.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "tendril/rpc/error.h"

namespace tendril::rpc::detail {

/// What a user is told where the system refuses something that nothing can do without: `text` is the system's.
inline RpcError system_failure(int error, const std::string& text) {
  if (error != EMFILE) return RpcError("the system refuses a worker what it needs: " + text);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return RpcError("this process has no file descriptor left for a worker: " + text + " (`ulimit -n` is " +
                  std::to_string(limit.rlim_cur) + ")");
}

/// Runs `f`; system errors of the standard library's and of Asio's kind become RpcErrors.
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
