#pragma once

#include <memory>

namespace tendril::rpc::detail {

class Observer;

/// While one of these lives, SIGUSR1 has the status of this process's workers written to the error output, by the
/// observer's thread. Where the program has set what SIGUSR1 does, or ignores it, nothing is changed. The handler stays
/// when the last of these goes, and then does nothing: a signal that comes late must not end the process.
class StatusSignal {
 public:
  StatusSignal();
  ~StatusSignal();
  StatusSignal(const StatusSignal&) = delete;
  StatusSignal& operator=(const StatusSignal&) = delete;

 private:
  class Watch;
  std::shared_ptr<Observer> observer_;
  std::shared_ptr<Watch> watch_;
};

}  // namespace tendril::rpc::detail
