#pragma once

#include <chrono>

namespace tendril::rpc::detail {

/// How many cores this process may use: those it may run on, limited by its cgroup's CPU quota. Returns 0 if the quota
/// is less than two cores: polling would then take time from useful work.
int cores_to_use() noexcept;

/// The time that this machine takes to wake a sleeping thread from another core. The first call measures it, in a few
/// milliseconds at most, between two threads that do nothing else. If the process may use only one core, the result is
/// a guess: its peers may run on others. Thread-safe.
std::chrono::nanoseconds wakeup_cost() noexcept;

}  // namespace tendril::rpc::detail
