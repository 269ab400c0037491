#include "tendril/rpc/threads/reactor.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>

#include "tendril/rpc/system/log.h"
#include "tendril/rpc/system/simulator.h"

namespace tendril::rpc::detail {

namespace {

void log_error(const char* what) noexcept {
  std::array<char, 512> text;
  std::snprintf(text.data(), text.size(), "rpc: error in a worker's I/O: %s", what);
  log(LogLevel::error, "", text.data());
}

/// Runs `f` and logs any exception that it throws.
template <class F>
void guarded(const F& f) noexcept try {
  f();
} catch (const std::exception& e) {
  log_error(e.what());
} catch (...) {
  log_error("an exception of unknown type");
}

}  // namespace

void Reactor::Watched::failed(std::exception_ptr error) noexcept {
  guarded([&] { std::rethrow_exception(error); });
}

Reactor::Reactor() : poller_(simulator != nullptr ? simulator->make_poller() : make_epoll()) {}

/// The functions destroyed here may own other timers, or use the reactor in their destructors.
Reactor::~Reactor() {
  while (!timers_.empty()) timers_.begin()->cancel();
  for (const auto& watched : std::exchange(watches_, {}))
    if (watched) watched->reactor_ends();
  while (!posted_.empty() || !taken_.empty()) {
    std::exchange(posted_, {}).clear();
    std::exchange(taken_, {}).clear();
  }
}

void Timer::call_at(Clock::time_point when, std::function<void()> f) {
  cancel();
  due_ = when;
  call_ = std::move(f);
  reactor_.next_timer_ = std::min(reactor_.next_timer_, when);
  const std::lock_guard lock(reactor_.timers_mutex_);
  reactor_.timers_.insert(*this);
}

void Timer::cancel() noexcept {
  std::function<void()> ended;  // may destroy this
  const std::lock_guard lock(reactor_.timers_mutex_);
  if (!is_linked()) return;
  reactor_.timers_.erase(reactor_.timers_.iterator_to(*this));
  ended.swap(call_);
}

void Reactor::watch(int descriptor, std::shared_ptr<Watched> watched) {
  const auto index = static_cast<std::size_t>(descriptor);
  if (index >= watches_.size()) watches_.resize(index + 1);
  if (!watches_[index]) poller_->add(descriptor, kWatched);
  watches_[index] = std::move(watched);
}

void Reactor::unwatch(int descriptor) noexcept {
  const std::shared_ptr<Watched> gone = watched(descriptor);
  if (!gone) return;
  watches_[static_cast<std::size_t>(descriptor)].reset();
  poller_->remove(descriptor);
  // The number may soon be reused for another descriptor.
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
  if (sleeping_.exchange(false)) poller_->wake();
}

bool Reactor::run_one(Clock::time_point deadline) {
  while (!run_next()) {
    if (interrupted_.load(std::memory_order_relaxed)) return false;
    look(deadline);
    if (!has_more() && deadline != Clock::time_point::max() && Clock::now() >= deadline) return false;
  }
  return true;
}

bool Reactor::poll_one() {
  if (read_again() || run_next()) return true;
  look(Clock::time_point::min());
  return run_next();
}

/// Reads the last descriptor again without asking the poller. After kMostReadAgain times in a row, all events get a
/// turn first.
bool Reactor::read_again() {
  if (last_read_ < 0 || has_more() || ++read_again_ >= kMostReadAgain) {
    read_again_ = 0;
    return false;
  }
  const std::shared_ptr<Watched> again = watched(last_read_);
  return tell(*again, EPOLLIN);
}

/// Handles one pending event, posted function or timer. Returns false if nothing is pending.
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
    guarded([&] { posted->run(); });
    return true;
  }
  if (next_timer_ <= now_ && run_timer()) return true;
  return false;
}

/// Runs the first timer that is due. Returns false if no timer is.
bool Reactor::run_timer() {
  std::function<void()> call;
  {
    const std::lock_guard lock(timers_mutex_);
    next_timer_ = timers_.empty() ? Clock::time_point::max() : timers_.begin()->due_;
    if (next_timer_ > now_) return false;
    Timer& timer = *timers_.begin();
    timers_.erase(timers_.begin());
    call.swap(timer.call_);
  }
  guarded([&] { call(); });
  return true;
}

bool Reactor::handle(const epoll_event& event) {
  const std::shared_ptr<Watched> watched = this->watched(event.data.fd);
  if (!watched) return false;  // the eventfd, or a descriptor that is no longer watched
  last_read_ = watched->may_read_again() ? event.data.fd : -1;
  tell(*watched, event.events);
  return true;
}

bool Reactor::tell(Watched& watched, uint32_t events) noexcept try { return watched.ready(events); } catch (...) {
  watched.failed(std::current_exception());
  return true;
}

/// Waits until `deadline` or until the next timer is due, whichever comes first. Does not wait if there is already
/// something to do.
void Reactor::look(Clock::time_point deadline) {
  deadline = std::min(deadline, next_timer_);
  if (deadline != Clock::time_point::min()) {
    sleeping_.store(true);
    if (has_posted_.load() || interrupted_.load()) deadline = Clock::time_point::min();
  }
  next_event_ = 0;
  num_events_ = static_cast<std::size_t>(poller_->wait(events_, deadline));
  sleeping_.store(false, std::memory_order_relaxed);
  // After a single event, which may read up to a mebibyte, the clock is read only every kLooksPerClock calls. Compared
  // with several events, reading it is cheap.
  if (next_timer_ != Clock::time_point::max() && (num_events_ != 1 || ++looks_ >= kLooksPerClock)) {
    now_ = Clock::now();
    looks_ = 0;
  }
  if (has_posted_.load(std::memory_order_relaxed)) {
    const std::lock_guard lock(mutex_);
    taken_.swap(posted_);
    has_posted_.store(false, std::memory_order_relaxed);
  }
}

}  // namespace tendril::rpc::detail
