#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tendril/rpc/threads/leadership.h"
#include "tendril/rpc/threads/mutex.h"

namespace tendril::rpc::detail {

/// Links that have not written what they were given last, so that several frames leave in one system call. What is held
/// leaves before this thread waits, or runs anything that may take long; and whoever takes leadership sees to it first.
/// So it may be held only while nobody leads: then a pool thread looks every poll interval, and leads, whatever the
/// thread that holds it does. Thread-safe.
class HeldSends {
 public:
  class Sender {
   public:
    virtual void write_held() = 0;

   protected:
    ~Sender() = default;
  };

  explicit HeldSends(const Leadership& lead) noexcept : leadership_(lead) {}

  /// False: not now. The sender must not wait in `write_held` for what it holds here.
  bool hold(std::shared_ptr<Sender> sender) {
    const std::lock_guard lock(mutex_);
    // Before it is asked who leads: whoever takes leadership after that sees this, and waits for the mutex in `flush`.
    any_.store(true);
    if (leadership_.taken()) {
      any_.store(!held_.empty());
      return false;
    }
    held_.push_back(std::move(sender));
    return true;
  }
  bool any() const noexcept { return any_.load(); }
  /// Without a lock that a sender takes.
  void flush() {
    if (!any()) return;
    std::vector<std::shared_ptr<Sender>> held;
    {
      const std::lock_guard lock(mutex_);
      held.swap(held_);
      any_.store(false);
    }
    for (const auto& sender : held) sender->write_held();
    held.clear();
    const std::lock_guard lock(mutex_);
    if (held_.empty()) held_.swap(held);  // its memory, for the next time
  }

 private:
  const Leadership& leadership_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Sender>> held_;
  std::atomic<bool> any_{false};
};

}  // namespace tendril::rpc::detail
