#pragma once

#include <boost/intrusive/set.hpp>
#include <functional>

#include "tendril/rpc/call_context.h"

namespace tendril::rpc::detail {

class Reactor;

/// Calls a function once, at a given time, on the leader's thread. The reactor must outlive the timer. Only the
/// leader's thread may set it. Any thread may cancel or destroy it, but the function may then still be running.
///
/// The function and its captures are kept until it has run, it is cancelled, or the reactor is destroyed.
class Timer : public boost::intrusive::set_base_hook<> {
 public:
  explicit Timer(Reactor& reactor) noexcept : reactor_(reactor) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Replaces an earlier setting.
  void call_at(Clock::time_point when, std::function<void()> f);
  void call_after(Clock::duration delay, std::function<void()> f) { call_at(Clock::now() + delay, std::move(f)); }
  void cancel() noexcept;
  // On the leader's thread.
  bool is_set() const noexcept { return is_linked(); }
  /// Returns `max()` if the timer is not set.
  Clock::time_point due() const noexcept { return is_set() ? due_ : Clock::time_point::max(); }

  /// The order of the reactor's queue.
  friend bool operator<(const Timer& a, const Timer& b) noexcept { return a.due_ < b.due_; }

 private:
  friend class Reactor;

  Reactor& reactor_;
  Clock::time_point due_{};
  std::function<void()> call_;
};

}  // namespace tendril::rpc::detail
