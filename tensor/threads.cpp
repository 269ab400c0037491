#include "tendril/tensor/threads.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <thread>

#include "tendril/tensor/error.h"

namespace tendril {
namespace {

int default_budget() noexcept {
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    const int asked = std::atoi(text);
    if (asked > 0) return asked;
  }
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::atomic<int>& budget() noexcept {
  static std::atomic<int> threads = default_budget();
  return threads;
}

constinit thread_local int limit = INT_MAX;

}  // namespace

int thread_budget() noexcept { return budget().load(std::memory_order_relaxed); }
int num_threads() noexcept { return std::min(limit, thread_budget()); }

void set_num_threads(int n) {
  TENDRIL_CHECK(n >= 1, "set_num_threads: needs at least 1 thread, got ", n);
  budget().store(n, std::memory_order_relaxed);
}

ThreadLimit::ThreadLimit(int n) : previous_(limit) {
  TENDRIL_CHECK(n >= 1, "ThreadLimit: needs at least 1 thread, got ", n);
  limit = std::min(limit, n);
}
ThreadLimit::~ThreadLimit() { limit = previous_; }

}  // namespace tendril
