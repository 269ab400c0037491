#pragma once

#include <pthread.h>

#include <csignal>
#include <initializer_list>

namespace tendril::cpu {

/// While it lives, signals to this thread wait. Its own faults (an invalid address, a division by zero) do not.
class BlockedSignals {
 public:
  /// `profiling`: SIGPROF waits too.
  explicit BlockedSignals(bool profiling = true) noexcept {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int own_fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&blocked, own_fault);
    if (!profiling) sigdelset(&blocked, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tendril::cpu
