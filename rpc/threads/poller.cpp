#include "tendril/rpc/threads/poller.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <system_error>

#include "tendril/rpc/system/direct_calls.h"
#include "tendril/rpc/system/unique_fd.h"

namespace tendril::rpc::detail {

namespace {

/// Rounded up, because waking too early is useless.
int milliseconds_until(Clock::time_point deadline) {
  if (deadline == Clock::time_point::max()) return -1;
  if (deadline == Clock::time_point::min()) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

UniqueFd made(int descriptor, const char* what) {
  if (descriptor < 0) throw std::system_error(errno, std::system_category(), what);
  return UniqueFd(descriptor);
}

class Epoll final : public Poller {
 public:
  Epoll()
      : epoll_(made(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        wakeup_(made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
    add(wakeup_.get(), EPOLLIN | EPOLLET);
  }

  void add(int descriptor, uint32_t events) override {
    if (control(EPOLL_CTL_ADD, descriptor, events) != 0)
      throw std::system_error(errno, std::system_category(), "epoll_ctl");
  }
  void change(int descriptor, uint32_t events) noexcept override { control(EPOLL_CTL_MOD, descriptor, events); }
  void remove(int descriptor) noexcept override { control(EPOLL_CTL_DEL, descriptor, 0); }

  int wait(std::span<epoll_event> events, Clock::time_point deadline) noexcept override {
    const int count =
        direct::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds_until(deadline));
    return std::max(count, 0);  // EINTR: no events
  }

  void wake() noexcept override {
    const uint64_t one = 1;
    (void)!::write(wakeup_.get(), &one, sizeof one);  // would fail only after 2^64 writes
  }

 private:
  int control(int operation, int descriptor, uint32_t events) noexcept {
    epoll_event event{};
    event.events = events;
    event.data.fd = descriptor;
    return ::epoll_ctl(epoll_.get(), operation, descriptor, &event);
  }

  const UniqueFd epoll_, wakeup_;
};

}  // namespace

std::unique_ptr<Poller> make_epoll() { return std::make_unique<Epoll>(); }

}  // namespace tendril::rpc::detail
