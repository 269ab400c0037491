#pragma once

#include <chrono>

namespace tendril::rpc::detail {

/// How many cores this process may run on, at most as many as its cgroup's quota of processor time is good for. 0: the
/// quota is less than two cores, so that time spent on polling is missed where there is work.
int cores_to_use() noexcept;

/// What it costs this machine to put a thread to sleep and wake it from another core: measured by the first that asks,
/// in a few milliseconds at most, between two threads that do nothing else. Where the process may use one core only it
/// is a guess: its peers may be on others. Thread-safe.
std::chrono::nanoseconds wakeup_cost() noexcept;

}  // namespace tendril::rpc::detail
