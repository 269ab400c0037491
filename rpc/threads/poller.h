#pragma once

#include <sys/epoll.h>

#include <memory>
#include <span>

#include "tendril/rpc/call_context.h"

namespace tendril::rpc::detail {

/// Waits until a descriptor is readable or writable, by epoll or in a simulation. Used by a reactor's leader; any
/// thread may call `wake`.
class Poller {
 public:
  virtual ~Poller() = default;

  /// Starts reporting `events` (epoll event bits) of a descriptor. Throws std::system_error.
  virtual void add(int descriptor, uint32_t events) = 0;
  virtual void change(int descriptor, uint32_t events) noexcept = 0;
  virtual void remove(int descriptor) noexcept = 0;
  /// Waits for events until `deadline`, and returns their number. Clock::time_point::min() means not to wait.
  virtual int wait(std::span<epoll_event> events, Clock::time_point deadline) noexcept = 0;
  /// Ends the current `wait`, or the next one if none is in progress.
  virtual void wake() noexcept = 0;
};

/// Throws std::system_error.
std::unique_ptr<Poller> make_epoll();

}  // namespace tendril::rpc::detail
