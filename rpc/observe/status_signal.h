#pragma once

#include <memory>

namespace tendril::rpc::detail {

class Observer;

/// Writes the status of this process's workers to the error output. Any thread.
void write_status();

/// While an instance exists, SIGUSR1 requests the status. The observer's thread then writes the status of this
/// process's workers to stderr, if a group has an instance, and notifies the calls of spawn() that have one. If the
/// program handles or ignores SIGUSR1, nothing changes. The signal handler remains after the last instance is gone and
/// then does nothing, so that a late signal does not end the process.
class StatusSignal {
 public:
  StatusSignal();
  /// For a call of spawn(): SIGUSR1 makes this eventfd readable, which must outlive this object.
  explicit StatusSignal(int spawned);
  ~StatusSignal();
  StatusSignal(const StatusSignal&) = delete;
  StatusSignal& operator=(const StatusSignal&) = delete;

 private:
  class Watch;
  void watch();
  std::shared_ptr<Observer> observer_;
  std::shared_ptr<Watch> watch_;
  const int spawned_ = -1;
};

}  // namespace tendril::rpc::detail
