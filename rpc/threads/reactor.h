#pragma once

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/rpc/threads/poller.h"
#include "tendril/rpc/threads/short_mutex.h"
#include "tendril/rpc/threads/timer.h"

namespace tendril::rpc::detail {

/// The event sources of a loop's leader: the streams of links, which a Poller watches, so that nothing delays a
/// message; functions that other threads have posted; timers; and an Asio io_context, for accepting connections.
///
/// One thread at a time runs it, the leader, and so what it calls: `run_one`, `poll_one`, `watch` and all below it.
/// `post` and `interrupt` are for any thread.
class Reactor {
 public:
  /// Told when its descriptor can be read or written (epoll's bits, edge-triggered: it is told of changes). True: there
  /// was something. It is kept for as long as it is watched.
  class Watched {
   public:
    virtual bool ready(uint32_t events) = 0;
    /// `ready` has thrown this error; the connection cannot be used any more.
    virtual void failed(std::exception_ptr error) noexcept = 0;
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
  /// `run_one` returns soon, whatever it waits for; or the next one does.
  void interrupt() noexcept;

  /// Waits until something has happened, and sees to that one thing. The calling thread may be waiting for
  /// an unrelated call, so errors of callbacks are not thrown: they are passed to Watched::failed or logged. False:
  /// nothing was done, because of the deadline or because it was interrupted.
  bool run_one(Clock::time_point deadline);
  /// As run_one, without waiting. What was read last is looked at first: most of what comes, comes from there.
  bool poll_one();
  /// Whether it was interrupted since this was last called.
  bool take_interrupt() noexcept { return interrupted_.exchange(false, std::memory_order_relaxed); }

  /// Says when `descriptor` can be read, or has ended; at once, if it can now. Throws std::system_error.
  void watch(int descriptor, std::shared_ptr<Watched> watched);
  /// Also, until it has happened, when it can be written.
  void watch_writing(int descriptor) noexcept { poller_->change(descriptor, kWatched | EPOLLOUT); }
  void stop_watching_writing(int descriptor) noexcept { poller_->change(descriptor, kWatched); }
  void unwatch(int descriptor) noexcept;

  /// For acceptors, on the leader's thread alone. `io_used` must follow every use: what completes at once is not
  /// noticed otherwise.
  boost::asio::io_context& io() noexcept { return asio_->io; }
  void io_used() noexcept { io_due_ = asio_ != nullptr; }

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
    return next_event_ < num_events_ || next_taken_ < taken_.size() || io_due_ || next_timer_ <= now_;
  }
  void look(Clock::time_point deadline);
  bool handle(const epoll_event& event);
  static bool tell(Watched& watched, uint32_t events) noexcept;
  bool read_again();
  void wake() noexcept;

  static constexpr uint32_t kWatched = EPOLLIN | EPOLLRDHUP | EPOLLET;
  static constexpr std::size_t kMaxEvents = 64;
  static constexpr int kMostReadAgain = 16;
  static constexpr int kMostIoHandlers = 64;
  static constexpr int kLooksPerClock = 16;

  const std::unique_ptr<Poller> poller_;
  struct Asio {
    Asio();
    boost::asio::io_context io{1};  // 1: never run by two threads at once
    // Without work an io_context stops by itself.
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{io.get_executor()};
    int descriptor = -1;  // readable when it has something to do
  };
  const std::unique_ptr<Asio> asio_;  // null in a simulation

  Mutex mutex_;  // guards posted_ only
  std::vector<std::unique_ptr<Posted>> posted_;
  std::atomic<bool> has_posted_{false}, interrupted_{false};
  std::atomic<bool> sleeping_{false};  // whoever posts or interrupts wakes the leader, and resets it

  // The leader's.
  std::vector<std::shared_ptr<Watched>> watches_;  // by descriptor
  std::array<epoll_event, kMaxEvents> events_;     // those from next_event_ on are still to be handled
  std::size_t next_event_ = 0, num_events_ = 0;
  std::vector<std::unique_ptr<Posted>> taken_;  // likewise
  std::size_t next_taken_ = 0;
  bool io_due_ = false;                                      // Asio may have something to do
  int io_handlers_ = 0;                                      // run since the last `look`
  int last_read_ = -1;                                       // the descriptor that was read last
  int read_again_ = 0;                                       // in a row
  Clock::time_point next_timer_ = Clock::time_point::max();  // no timer is due earlier
  Clock::time_point now_{};                                  // the last clock reading for timers
  int looks_ = 0;                                            // calls of `look` since that reading

  ShortMutex timers_mutex_;
  boost::intrusive::multiset<Timer> timers_;  // ordered by due time
};

}  // namespace tendril::rpc::detail
