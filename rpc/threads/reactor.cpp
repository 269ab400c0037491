#include "tendril/rpc/threads/reactor.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/detail/epoll_reactor.hpp>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <exception>
#include <system_error>

#include "tendril/rpc/observe/log.h"
#include "tendril/rpc/transport/direct_calls.h"

namespace tendril::rpc::detail {

namespace {

/// Asio does not hand out the descriptor that its own reactor waits on, and nothing else says whether it has something
/// to do. (An explicit instantiation may name what is private.)
template <auto Member>
struct EpollOfAsio {
  friend int epoll_of(boost::asio::detail::epoll_reactor& reactor) { return reactor.*Member; }
};
template struct EpollOfAsio<&boost::asio::detail::epoll_reactor::epoll_fd_>;
int epoll_of(boost::asio::detail::epoll_reactor& reactor);

/// Rounded up: to wake up too early would be for nothing.
int milliseconds_until(Clock::time_point deadline) {
  if (deadline == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

void say_error(const char* what) noexcept {
  std::array<char, 512> text;
  std::snprintf(text.data(), text.size(), "rpc: an error in a worker's I/O: %s", what);
  log(LogLevel::error, "", text.data());
}

/// Logs an exception that `f` throws.
template <class F>
void guarded(const F& f) noexcept try {
  f();
} catch (const std::exception& e) {
  say_error(e.what());
} catch (...) {
  say_error("of an unknown type");
}

UniqueFd made(int descriptor, const char* what) {
  if (descriptor < 0) throw std::system_error(errno, std::system_category(), what);
  return UniqueFd(descriptor);
}

}  // namespace

Reactor::Reactor()
    : epoll_(made(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      wakeup_(made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
  auto& reactor = boost::asio::use_service<boost::asio::detail::epoll_reactor>(io_);
  reactor.init_task();
  io_descriptor_ = epoll_of(reactor);
  add(io_descriptor_, EPOLLIN);  // level-triggered: until Asio has looked at it
  add(wakeup_.get(), EPOLLIN | EPOLLET);
}

Reactor::~Reactor() = default;

void Reactor::add(int descriptor, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    throw std::system_error(errno, std::system_category(), "epoll_ctl");
  }
}

void Reactor::change(int descriptor, uint32_t more_events) noexcept {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLET | more_events;
  event.data.fd = descriptor;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event);
}

void Reactor::watch(int descriptor, std::shared_ptr<Watched> watched) {
  const auto index = static_cast<std::size_t>(descriptor);
  if (index >= watches_.size()) watches_.resize(index + 1);
  if (!watches_[index]) add(descriptor, EPOLLIN | EPOLLRDHUP | EPOLLET);
  watches_[index] = std::move(watched);
}

void Reactor::unwatch(int descriptor) noexcept {
  const std::shared_ptr<Watched> gone = watched(descriptor);
  if (!gone) return;
  watches_[static_cast<std::size_t>(descriptor)].reset();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  // The number may be another descriptor's soon.
  for (std::size_t i = next_event_; i < num_events_; ++i) {
    if (events_[i].data.fd == descriptor) events_[i].data.fd = -1;
  }
  if (last_read_ == descriptor) last_read_ = -1;
}

void Reactor::push(std::unique_ptr<Posted> posted) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(posted));
    has_posted_.store(true);
  }
  if (sleeping_.load()) wake();
}

void Reactor::interrupt() noexcept {
  interrupted_.store(true);
  if (sleeping_.load()) wake();
}

void Reactor::wake() noexcept {
  if (!sleeping_.exchange(false)) return;
  const uint64_t one = 1;
  (void)!::write(wakeup_.get(), &one, sizeof one);  // it cannot fail before it has been written 2^64 times
}

bool Reactor::run_one(Clock::time_point deadline) {
  while (!run_next()) {
    if (interrupted_.load(std::memory_order_relaxed)) return false;
    const int timeout = milliseconds_until(deadline);
    look(timeout);
    if (!has_more() && (timeout == 0 || Clock::now() >= deadline)) return false;
  }
  return true;
}

bool Reactor::poll_one() {
  if (read_again() || run_next()) return true;
  look(0);
  return run_next();
}

/// Edge-triggered, it need not have been reported. Now and then the others are looked at first.
bool Reactor::read_again() {
  if (last_read_ < 0 || has_more() || ++read_again_ >= kMostReadAgain) {
    read_again_ = 0;
    return false;
  }
  const std::shared_ptr<Watched> again = watched(last_read_);
  return tell(*again, EPOLLIN);
}

/// One of the things that have been noticed. False: there is none.
bool Reactor::run_next() {
  while (next_event_ < num_events_) {
    if (handle(events_[next_event_++])) return true;
  }
  if (next_taken_ < taken_.size()) {
    const std::unique_ptr<Posted> posted = std::move(taken_[next_taken_++]);
    if (next_taken_ == taken_.size()) {
      taken_.clear();
      next_taken_ = 0;
    }
    io_due_ = true;  // it may be what uses Asio
    guarded([&] { posted->run(); });
    return true;
  }
  if (io_due_ && io_handlers_ < kMostIoHandlers) {  // then links come first: strangers may keep Asio busy
    ++io_handlers_;
    guarded([&] { io_due_ = io_.poll_one() > 0; });
    return io_due_;
  }
  return false;
}

bool Reactor::handle(const epoll_event& event) {
  if (event.data.fd == io_descriptor_) {
    io_due_ = true;
    return false;
  }
  const std::shared_ptr<Watched> watched = this->watched(event.data.fd);
  if (!watched) return false;  // the eventfd, or one that is not watched any more
  last_read_ = event.data.fd;
  tell(*watched, event.events);
  return true;
}

bool Reactor::tell(Watched& watched, uint32_t events) noexcept try { return watched.ready(events); } catch (...) {
  watched.failed(std::current_exception());
  return true;
}

void Reactor::look(int timeout_ms) {
  io_handlers_ = 0;
  if (io_due_) timeout_ms = 0;
  if (timeout_ms != 0) {
    sleeping_.store(true);
    if (has_posted_.load() || interrupted_.load()) timeout_ms = 0;
  }
  const int count = direct::epoll_wait(epoll_.get(), events_.data(), kMaxEvents, timeout_ms);
  sleeping_.store(false, std::memory_order_relaxed);
  next_event_ = 0;
  num_events_ = static_cast<std::size_t>(std::max(count, 0));  // EINTR: nothing
  if (has_posted_.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(mutex_);
    taken_.swap(posted_);
    has_posted_.store(false, std::memory_order_relaxed);
  }
}

}  // namespace tendril::rpc::detail
