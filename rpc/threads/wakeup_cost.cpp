#include "tendril/rpc/threads/wakeup_cost.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "tendril/tensor/detail/signal_mask.h"

namespace tendril::rpc::detail {

namespace {

using std::chrono::nanoseconds;
using WakeClock = std::chrono::steady_clock;

constexpr int kRounds = 9;
constexpr std::chrono::microseconds kRest{200};
constexpr nanoseconds kLeastCost = std::chrono::microseconds(5), kMostCost = std::chrono::microseconds(500);
constexpr nanoseconds kUsualCost = std::chrono::microseconds(50);

cpu_set_t allowed_cores() noexcept {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  return cores;
}

/// Reads the CPU quota of cgroup version 1 or 2. Considers the limit of the process's group, not those of its parents.
double quota_in_cores() noexcept try {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t controllers = line.find(':'), path = line.find(':', controllers + 1);
    if (controllers == line.npos || path == line.npos) continue;
    std::string names = ",";
    names.append(line, controllers + 1, path - controllers - 1).append(",");
    double quota = -1, period = 0;
    if (names == ",,") {
      std::ifstream limit("/sys/fs/cgroup" + line.substr(path + 1) + "/cpu.max");
      if (!(limit >> quota >> period)) continue;  // "max 100000": no limit
    } else if (names.find(",cpu,") != names.npos) {
      const std::string folder = "/sys/fs/cgroup/cpu" + line.substr(path + 1);
      if (!(std::ifstream(folder + "/cpu.cfs_quota_us") >> quota)) continue;
      if (!(std::ifstream(folder + "/cpu.cfs_period_us") >> period)) continue;
    }
    if (quota > 0 && period > 0) return quota / period;
  }
  return CPU_SETSIZE;
} catch (...) {  // no memory
  return CPU_SETSIZE;
}

void run_on(int core) noexcept {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

/// Wakes a sleeping thread.
class Bell {
 public:
  /// Returns false if the sleeper has not yet seen the previous ring.
  bool ring() {
    const std::lock_guard lock(mutex_);
    if (rung_) return false;
    rung_at_ = WakeClock::now();
    rung_ = true;
    changed_.notify_one();
    return true;
  }
  /// Sleeps until the next ring. Returns the time from the ring until this thread runs.
  nanoseconds await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return rung_; });
    rung_ = false;
    return WakeClock::now() - rung_at_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
  WakeClock::time_point rung_at_;
};

/// The median of several wake-ups, each after a pause in which the sleeper's core becomes idle.
nanoseconds measure() noexcept try {
  const cpu_set_t allowed = allowed_cores();
  const int here = sched_getcpu();
  int other = -1;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (core != here && CPU_ISSET(core, &allowed)) other = core;
  }
  if (other < 0) return kUsualCost;
  std::array<nanoseconds, kRounds> took{};
  Bell bell;
  const tendril::detail::SignalMask mask;
  std::thread sleeper([&] {
    run_on(other);
    for (nanoseconds& one : took) one = bell.await();
  });
  // This thread rings, so that no second one is needed; the core on which it runs matters little.
  for (int rings = 0; rings < kRounds;) {
    std::this_thread::sleep_for(kRest);
    rings += bell.ring() ? 1 : 0;
  }
  sleeper.join();
  const auto middle = took.begin() + kRounds / 2;
  std::nth_element(took.begin(), middle, took.end());
  return std::clamp(*middle, kLeastCost, kMostCost);
} catch (const std::exception&) {  // no thread available
  return kUsualCost;
}

}  // namespace

int cores_to_use() noexcept {
  const cpu_set_t allowed = allowed_cores();
  const double quota = quota_in_cores();
  return quota < 2 ? 0 : std::min(CPU_COUNT(&allowed), static_cast<int>(quota));
}

nanoseconds wakeup_cost() noexcept {
  static const nanoseconds cost = measure();
  return cost;
}

}  // namespace tendril::rpc::detail
