#pragma once

#include <condition_variable>
#include <mutex>

#include "tendril/rpc/clock.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// A std::mutex; in a simulation, waiting for it suspends only the calling fibre. Code that runs in simulations must
/// use it: a fibre that waited for a std::mutex would block the thread, and with it the fibre that holds the mutex.
class Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() {
    if (simulator != nullptr) [[unlikely]]
      return lock_simulated();
    mutex_.lock();
  }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() {
    mutex_.unlock();
    if (simulator != nullptr) [[unlikely]]
      unlocked_simulated();
  }

 private:
  friend class Condition;
  void lock_simulated();
  void unlocked_simulated() noexcept;

  std::mutex mutex_;
};

/// A std::condition_variable that works in simulations, too.
class Condition {
 public:
  Condition() = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  void wait(std::unique_lock<Mutex>& lock) { wait_until(lock, Clock::time_point::max()); }
  /// Returns false if the deadline passed. Clock::time_point::max() means no deadline.
  bool wait_until(std::unique_lock<Mutex>& lock, Clock::time_point deadline) {
    if (simulator != nullptr) [[unlikely]]
      return wait_simulated(*lock.mutex(), deadline);
    std::unique_lock<std::mutex> system(lock.mutex()->mutex_, std::adopt_lock);
    bool in_time = true;
    if (deadline == Clock::time_point::max()) {
      condition_.wait(system);
    } else {
      in_time = condition_.wait_until(system, deadline) == std::cv_status::no_timeout;
    }
    system.release();
    return in_time;
  }
  template <class Predicate>
  void wait(std::unique_lock<Mutex>& lock, Predicate predicate) {
    while (!predicate()) wait(lock);
  }
  /// Returns whether the predicate holds at the end.
  template <class Predicate>
  bool wait_until(std::unique_lock<Mutex>& lock, Clock::time_point deadline, Predicate predicate) {
    while (!predicate())
      if (!wait_until(lock, deadline)) return predicate();
    return true;
  }

  void notify_one() noexcept {
    if (simulator != nullptr) [[unlikely]]
      return notify_simulated(false);
    condition_.notify_one();
  }
  void notify_all() noexcept {
    if (simulator != nullptr) [[unlikely]]
      return notify_simulated(true);
    condition_.notify_all();
  }

 private:
  bool wait_simulated(Mutex& mutex, Clock::time_point deadline);
  void notify_simulated(bool all) noexcept;

  std::condition_variable condition_;
};

/// A std::shared_mutex that works in simulations, too. New readers do not wait behind a waiting writer.
class SharedMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !writing_ && readers_ == 0; });
    writing_ = true;
  }
  bool try_lock() {
    const std::lock_guard lock(mutex_);
    return !writing_ && readers_ == 0 && (writing_ = true);
  }
  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
    }
    changed_.notify_all();
  }
  void lock_shared() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !writing_; });
    ++readers_;
  }
  bool try_lock_shared() {
    const std::lock_guard lock(mutex_);
    return !writing_ && ++readers_ > 0;
  }
  void unlock_shared() {
    {
      const std::lock_guard lock(mutex_);
      if (--readers_ > 0) return;
    }
    changed_.notify_one();
  }

 private:
  Mutex mutex_;
  Condition changed_;
  bool writing_ = false;
  int readers_ = 0;
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
