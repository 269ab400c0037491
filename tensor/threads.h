#pragma once

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril {

/// How many threads one operation may use: the process's budget, or less where a ThreadLimit says so. At first the
/// number of processors, or OMP_NUM_THREADS. Operations that run at the same time share the budget: each has its
/// caller's thread, and others while there are some left. Small operations use one thread whatever the budget.
/// Thread-safe.
int num_threads() noexcept;
/// The process's budget.
int thread_budget() noexcept;
/// Sets the process's budget. Throws Error for n < 1.
void set_num_threads(int n);

/// While it lives, operations called from this thread use at most `n` threads: for threads that are many themselves.
/// To be destroyed by the thread that made it, in reverse order of making.
class ThreadLimit {
 public:
  explicit ThreadLimit(int n);  ///< throws Error for n < 1
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int previous_;
};

}  // namespace tendril

TENDRIL_API_END
