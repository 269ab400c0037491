#pragma once

namespace tendril::rpc::detail {

/// While one of these lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the process, so that its workers
/// can be ended first. Signals that are ignored stay ignored. Guards may overlap, also in several threads.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// Readable once a signal was caught.
  int fd() const noexcept;
  /// The signal that was caught, or 0.
  int caught() const noexcept;
  /// Ends the guard and, if it was the last one, raises the signal again under the handler that was there before.
  void pass_on();

 private:
  void release(bool raise_again);
  bool held_ = true;
};

}  // namespace tendril::rpc::detail
