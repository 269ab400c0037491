#pragma once

#include <memory>

namespace tendril::rpc::detail {

class Observer;

/// Writes the status of this process's workers to the error output. Any thread.
void write_status();

/// While one of these lives, SIGUSR1 has the status of this process's workers written to the error output, by the
/// observer's thread, if a group has one, and is passed on to who has spawned workers. Where the program has set what
/// SIGUSR1 does, or ignores it, nothing is changed. The handler stays when the last of these goes, and then does
/// nothing: a signal that comes late must not end the process.
class StatusSignal {
 public:
  StatusSignal();
  /// Of a process that has spawned workers: SIGUSR1 makes this eventfd, which outlives it, readable.
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
