#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/threads/leadership.h"

namespace tendril::rpc::detail {

/// Links whose last frames are queued but not yet written, so that several frames leave in one system call. Held frames
/// are written before this thread waits or runs anything that may take long, and a new leader writes them first. Frames
/// may be held only while the loop has no leader: a pool thread then checks every poll interval and takes leadership,
/// whatever the holding thread does. Thread-safe.
class HeldSends {
 public:
  class Sender {
   public:
    virtual void write_held() = 0;

   protected:
    ~Sender() = default;
  };

  explicit HeldSends(const Leadership& lead) noexcept : leadership_(lead) {}

  /// Returns false if frames must not be held now. The caller may hold locks that `write_held` takes.
  bool hold(std::shared_ptr<Sender> sender) {
    const std::lock_guard lock(mutex_);
    // Set before the check for a leader: a thread that takes leadership later sees it, and waits for mutex_ in `flush`.
    any_.store(true);
    if (leadership_.taken()) {
      any_.store(!held_.empty());
      return false;
    }
    held_.push_back(std::move(sender));
    return true;
  }
  bool any() const noexcept { return any_.load(); }
  /// Writes all held frames. The caller must not hold a lock that `write_held` takes.
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
    if (held_.empty()) held_.swap(held);  // reuse its memory
  }

 private:
  const Leadership& leadership_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Sender>> held_;
  std::atomic<bool> any_{false};
};

}  // namespace tendril::rpc::detail
