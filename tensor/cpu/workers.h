#pragma once

#include <cstdint>

#include "tendril/tensor/cpu/parallel.h"

/// The threads that help callers with their kernels, and how many there may be
/// (docs/decisions/0017-threads-of-kernels.md).
namespace tendril::cpu {

/// Threads that one operation may have at most, whatever the budget.
inline constexpr int kMostThreads = 64;

/// A call's part of the process's budget while it lives: the calling thread, which is never refused, and others while
/// there are some left. Within a kernel the calling thread has been counted already. Never waits.
class ThreadShare {
 public:
  explicit ThreadShare(int64_t wanted) noexcept;
  ~ThreadShare();
  ThreadShare(const ThreadShare&) = delete;
  ThreadShare& operator=(const ThreadShare&) = delete;

  /// 1 or more, with the caller.
  int threads() const noexcept { return others_ + 1; }
  /// From now on somebody else gives them back, one by one.
  void pass_on() noexcept { others_ = 0; }

 private:
  bool outermost_ = false;
  int others_ = 0;
};

/// Threads inside kernels now, as counted against the budget; for tests.
int threads_inside() noexcept;

}  // namespace tendril::cpu
