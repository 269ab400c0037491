#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

// Sanitizers intercept the C library's functions.
#if defined(__linux__) && defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#include <sys/syscall.h>
#define TENDRIL_DIRECT_CALLS 1
#endif

/// The three system calls that a small message takes. They behave like the C library's functions of the same names, but
/// are not cancellation points, which cost two atomic exchanges per call. Threads here are never cancelled.
namespace tendril::rpc::detail::direct {

#ifdef TENDRIL_DIRECT_CALLS
inline ssize_t readv(int descriptor, const iovec* to, int count) noexcept {
  return ::syscall(SYS_readv, descriptor, to, count);
}
inline ssize_t sendmsg(int socket, const msghdr* message, int flags) noexcept {
  return ::syscall(SYS_sendmsg, socket, message, flags);
}
inline int epoll_wait(int descriptor, epoll_event* events, int most, int timeout_ms) noexcept {
  return static_cast<int>(::syscall(SYS_epoll_wait, descriptor, events, most, timeout_ms));
}
#else
using ::epoll_wait;
using ::readv;
using ::sendmsg;
#endif

}  // namespace tendril::rpc::detail::direct
