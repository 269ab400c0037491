#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/transport/unique_fd.h"

namespace tendril::rpc::detail {

/// What a loop's leader waits for: the sockets of links, which are watched by an epoll descriptor of our own, so that
/// nothing stands in a message's way; functions that other threads have posted; and an Asio io_context, for timers and
/// for accepting and making connections.
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

   protected:
    ~Watched() = default;
  };

  Reactor();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Runs `f` on the leader's thread, soon: when there is a leader.
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
  void watch_writing(int descriptor) noexcept { change(descriptor, EPOLLOUT); }
  void stop_watching_writing(int descriptor) noexcept { change(descriptor, 0); }
  void unwatch(int descriptor) noexcept;

  /// Asio's objects are made with it, and used on the leader's thread alone. Who uses them from a `Watched` says so:
  /// what they complete at once is not noticed otherwise.
  boost::asio::io_context& io() noexcept { return io_; }
  void io_used() noexcept { io_due_ = true; }

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
  bool run_next();
  bool has_more() const noexcept { return next_event_ < num_events_ || next_taken_ < taken_.size() || io_due_; }
  void look(int timeout_ms);
  bool handle(const epoll_event& event);
  static bool tell(Watched& watched, uint32_t events) noexcept;
  bool read_again();
  void wake() noexcept;
  void add(int descriptor, uint32_t events);
  void change(int descriptor, uint32_t more_events) noexcept;

  static constexpr std::size_t kMaxEvents = 64;
  static constexpr int kMostReadAgain = 16;
  static constexpr int kMostIoHandlers = 64;

  const UniqueFd epoll_, wakeup_;
  boost::asio::io_context io_{1};  // 1: never run by two threads at once
  // Without work an io_context stops by itself.
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  int io_descriptor_ = -1;  // readable when Asio has something to do

  std::mutex mutex_;  // of posted_ alone
  std::vector<std::unique_ptr<Posted>> posted_;
  std::atomic<bool> has_posted_{false}, interrupted_{false};
  std::atomic<bool> sleeping_{false};  // whoever posts or interrupts wakes the leader, and resets it

  // The leader's.
  std::vector<std::shared_ptr<Watched>> watches_;  // by descriptor
  std::array<epoll_event, kMaxEvents> events_;     // those from next_event_ on are still to be handled
  std::size_t next_event_ = 0, num_events_ = 0;
  std::vector<std::unique_ptr<Posted>> taken_;  // likewise
  std::size_t next_taken_ = 0;
  bool io_due_ = false;  // Asio may have something to do
  int io_handlers_ = 0;  // run since the last `look`
  int last_read_ = -1;   // the descriptor of which something was read last
  int read_again_ = 0;   // in a row
};

}  // namespace tendril::rpc::detail
