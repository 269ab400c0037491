#pragma once

#include <pthread.h>

#include <csignal>
#include <initializer_list>

namespace tendril::cpu {

/// While it lives, signals to this thread wait, and so they do for good in threads that it starts. Those of a thread's
/// own faults (an invalid address, a division by zero) do not.
class BlockedSignals {
 public:
  enum class Purpose {
    no_handler,      ///< nothing else may run on this thread
    starting_thread  ///< for threads to be started: a profiler's SIGPROF is for them too, whatever waits here
  };
  explicit BlockedSignals(Purpose purpose) noexcept {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int own_fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&blocked, own_fault);
    const bool starting = purpose == Purpose::starting_thread;
    if (starting) sigdelset(&blocked, SIGPROF);
    pthread_sigmask(starting ? SIG_SETMASK : SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tendril::cpu
