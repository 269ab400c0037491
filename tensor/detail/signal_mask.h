#pragma once

#include <pthread.h>

#include <csignal>
#include <initializer_list>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::detail {

/// While it lives, this thread and the threads that it starts take no signals that are sent to the process: those are
/// for the program's own threads, or come later. Signals of a fault in the thread itself stay as they are: blocked, a
/// raised one would be lost and a real one would end the process without the program's handler.
class SignalMask {
 public:
  /// `but`: taken too.
  explicit SignalMask(std::initializer_list<int> but = {}) noexcept {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) ::sigdelset(&all, fault);
    for (const int signal : but) ::sigdelset(&all, signal);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalMask() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tendril::detail

TENDRIL_API_END
