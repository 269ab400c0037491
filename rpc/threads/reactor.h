#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/threads/poller.h"
#include "tendril/rpc/threads/short_mutex.h"
#include "tendril/rpc/threads/timer.h"

namespace tendril::rpc::detail {

/// The event sources of a loop's leader: the descriptors of links and acceptors, which a Poller watches; functions
/// posted by other threads; and timers.
///
/// Only one thread at a time, the leader, may call `run_one`, `poll_one`, `watch` and the functions declared after
/// `watch`; it also runs the callbacks. Any thread may call `post` and `interrupt`.
class Reactor {
 public:
  /// Receives the events of a descriptor. The reactor keeps it alive while it is watched.
  class Watched {
   public:
    /// The descriptor has become readable or writable (epoll event bits, edge-triggered: only changes are reported).
    /// Returns whether there was something to do.
    virtual bool ready(uint32_t events) = 0;
    /// `ready` has thrown this error. Logs it.
    virtual void failed(std::exception_ptr error) noexcept;
    /// Whether `poll_one` may call `ready` without an event, because more data often follows soon.
    virtual bool may_read_again() const noexcept { return false; }
    /// The reactor is destroyed while it still watches this object.
    virtual void reactor_ends() noexcept {}

   protected:
    ~Watched() = default;
  };

  Reactor();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Runs `f` soon on the leader's thread, once there is a leader.
  template <class F>
  void post(F f) {
    struct Callable final : Posted {
      explicit Callable(F&& callable) : f(std::move(callable)) {}
      void run() override { f(); }
      F f;
    };
    push(std::make_unique<Callable>(std::move(f)));
  }
  /// Makes the current `run_one` return soon, or the next one if none is in progress.
  void interrupt() noexcept;

  /// Waits for an event and handles that one event. The calling thread may be waiting for an unrelated call, so errors
  /// of callbacks are not thrown: they are passed to Watched::failed or logged. Returns false if nothing was done,
  /// because the deadline has passed or the reactor was interrupted.
  bool run_one(Clock::time_point deadline);
  /// Like `run_one`, but does not wait. Tries the descriptor that was read last first: most data arrives there.
  bool poll_one();
  /// Returns whether the reactor was interrupted since the last call of this function.
  bool take_interrupt() noexcept { return interrupted_.exchange(false, std::memory_order_relaxed); }

  /// Reports to `watched` when `descriptor` becomes readable or ends; at once, if it already is or has. Throws
  /// std::system_error.
  void watch(int descriptor, std::shared_ptr<Watched> watched);
  /// Reports once more to its `ready` if the descriptor is readable.
  void report_again(int descriptor) noexcept { poller_->change(descriptor, kWatched); }
  /// Also reports when it becomes writable, until `stop_watching_writing`.
  void watch_writing(int descriptor) noexcept { poller_->change(descriptor, kWatched | EPOLLOUT); }
  void stop_watching_writing(int descriptor) noexcept { poller_->change(descriptor, kWatched); }
  void unwatch(int descriptor) noexcept;

 private:
  struct Posted {
    virtual ~Posted() = default;
    virtual void run() = 0;
  };

  void push(std::unique_ptr<Posted> posted);
  std::shared_ptr<Watched> watched(int descriptor) const noexcept {
    const auto index = static_cast<std::size_t>(descriptor);
    return index < watches_.size() ? watches_[index] : nullptr;
  }
  friend class Timer;
  bool run_next();
  bool run_timer();
  bool has_more() const noexcept {
    return next_event_ < num_events_ || next_taken_ < taken_.size() || next_timer_ <= now_;
  }
  void look(Clock::time_point deadline);
  bool handle(const epoll_event& event);
  static bool tell(Watched& watched, uint32_t events) noexcept;
  bool read_again();
  void wake() noexcept;

  static constexpr uint32_t kWatched = EPOLLIN | EPOLLRDHUP | EPOLLET;
  static constexpr std::size_t kMaxEvents = 64;
  static constexpr int kMostReadAgain = 16;
  static constexpr int kLooksPerClock = 16;

  const std::unique_ptr<Poller> poller_;

  Mutex mutex_;  // guards posted_ only
  std::vector<std::unique_ptr<Posted>> posted_;
  std::atomic<bool> has_posted_{false}, interrupted_{false};
  std::atomic<bool> sleeping_{false};  // reset by the thread that posts or interrupts, which then wakes the leader

  // Used by the leader only.
  std::vector<std::shared_ptr<Watched>> watches_;  // by descriptor
  std::array<epoll_event, kMaxEvents> events_;     // to be handled from next_event_ on
  std::size_t next_event_ = 0, num_events_ = 0;
  std::vector<std::unique_ptr<Posted>> taken_;  // to be run from next_taken_ on
  std::size_t next_taken_ = 0;
  int last_read_ = -1;                                       // the descriptor that was read last
  int read_again_ = 0;                                       // calls of `read_again` in a row
  Clock::time_point next_timer_ = Clock::time_point::max();  // no timer is due earlier
  Clock::time_point now_{};                                  // the last clock reading for timers
  int looks_ = 0;                                            // calls of `look` since that reading

  ShortMutex timers_mutex_;
  boost::intrusive::multiset<Timer> timers_;  // ordered by due time
};

}  // namespace tendril::rpc::detail
