#include "tendril/rpc/simulation/watchdog.h"

#include <cstdio>
#include <cstdlib>

namespace tendril::rpc::detail {

Watchdog::Watchdog(std::chrono::seconds longest_step) : longest_(longest_step) {
  if (longest_.count() > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Watchdog::step(int rank, const std::string& thread) {
  if (!thread_.joinable()) return;
  const std::lock_guard lock(mutex_);
  ++steps_;
  rank_ = rank;
  name_ = thread;
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  for (uint64_t seen = 0;; seen = steps_) {
    if (ended_.wait_for(lock, longest_, [&] { return over_; })) return;
    if (steps_ != seen || steps_ == 0) continue;
    std::fprintf(stderr,
                 "rpc::simulate: thread '%s' of rank %d has run for more than %lld s without waiting for anything that "
                 "is simulated. It may sleep, lock a std::mutex, read a socket or loop until a real time: see "
                 "\"Restrictions\" in docs/simulation.md. (SimulationOptions::longest_step sets the limit.)\n",
                 name_.c_str(), rank_, static_cast<long long>(longest_.count()));
    std::abort();
  }
}

}  // namespace tendril::rpc::detail
