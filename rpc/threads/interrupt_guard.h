#pragma once

namespace tendril::rpc::detail {

/// While a guard exists, SIGINT, SIGTERM and SIGHUP are recorded instead of ending the process, so that its workers can
/// be ended first. Ignored signals stay ignored. Guards may overlap, also across threads.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// A descriptor that becomes readable once a signal has been caught.
  int fd() const noexcept;
  /// The signal that was caught, or 0.
  int caught() const noexcept;
  /// Ends the guard and, if it was the last one, raises the signal again under the previous handler.
  void pass_on();

 private:
  void release(bool raise_again);
  bool held_ = true;
};

}  // namespace tendril::rpc::detail
