#include "tendril/rpc/threads/interrupt_guard.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/mutex.h"

namespace tendril::rpc::detail {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int kCount = std::size(kSignals);

Mutex guards_mutex;
int guards = 0;
struct sigaction previous[kCount];
bool replaced[kCount];
int pipe_ends[2] = {-1, -1};  // never closed: the handler may run at any time
std::atomic<int> caught_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

void note(int signal) {
  const int saved = errno;
  int none = 0;
  caught_signal.compare_exchange_strong(none, signal);
  const char byte = 0;
  [[maybe_unused]] const ssize_t n = ::write(pipe_ends[1], &byte, 1);
  errno = saved;
}

void drain() {
  char bytes[64];
  while (::read(pipe_ends[0], bytes, sizeof bytes) > 0) {
  }
}

}  // namespace

InterruptGuard::InterruptGuard() {
  const std::lock_guard lock(guards_mutex);
  if (pipe_ends[0] < 0 && ::pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) != 0)
    throw RpcError(std::string("pipe2: ") + std::strerror(errno));
  if (guards++ > 0) return;
  caught_signal = 0;
  drain();
  for (int i = 0; i < kCount; ++i) {
    struct sigaction action {};
    action.sa_handler = note;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(kSignals[i], nullptr, &previous[i]);
    replaced[i] = (previous[i].sa_flags & SA_SIGINFO) != 0 || previous[i].sa_handler != SIG_IGN;
    if (replaced[i]) ::sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() { release(false); }

int InterruptGuard::fd() const noexcept { return pipe_ends[0]; }
int InterruptGuard::caught() const noexcept { return caught_signal; }
void InterruptGuard::pass_on() { release(true); }

void InterruptGuard::release(bool raise_again) {
  if (!held_) return;
  held_ = false;
  int signal = 0;
  {
    const std::lock_guard lock(guards_mutex);
    if (--guards > 0) return;
    for (int i = 0; i < kCount; ++i)
      if (replaced[i]) ::sigaction(kSignals[i], &previous[i], nullptr);
    signal = caught_signal;
  }
  // A signal that arrived when no worker was left to end must not be lost either.
  if (signal != 0 && (raise_again || std::uncaught_exceptions() == 0)) ::raise(signal);
}

}  // namespace tendril::rpc::detail
